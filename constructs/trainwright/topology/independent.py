"""Pods that do not communicate: evaluation of many checkpoints, preparation of data in shards, sweeps."""

from typing import ClassVar, Literal

from trainwright.handshake import Rendezvous
from trainwright.topology.base import CommandTopology, GpuCount, NodeCount


class Independent(CommandTopology):
    """``kind: independent``: pods that do not communicate, each with its own share of the work."""

    title: ClassVar[str] = "independent pods"
    only_commands: ClassVar[str] = "its pods are independent, and that workload is for ranks that communicate"
    rendezvous: ClassVar[Rendezvous] = Rendezvous.NONE

    kind: Literal["independent"] = "independent"
    """Pods that do not communicate."""
    nodes: NodeCount
    """Number of pods. Each learns its number from `NODE_RANK`, from 0, and how many there are from `NNODES`."""
    gpus_per_node: GpuCount
    """Of each pod; 0 for a run on CPUs."""
