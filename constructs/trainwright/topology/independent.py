"""Pods that do not communicate: evaluation of many checkpoints, preparation of data in shards, sweeps."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.handshake import Guarantee, Needs, Rendezvous, RestartUnit, Success
from trainwright.topology.base import PodTopology


class Independent(PodTopology):
    """``kind: independent``: pods that do not communicate, each with its own share of the work."""

    title: ClassVar[str] = "independent pods"
    engine: ClassVar[None] = None
    checkpoint_format: ClassVar[str] = "torch"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset()
    only_commands: ClassVar[str] = "its pods are independent, and that workload is for ranks that communicate"

    kind: Literal["independent"] = "independent"
    """Pods that do not communicate."""
    nodes: Annotated[int, Field(strict=True, ge=1, le=4096)]
    """Number of pods. Each learns its number from `NODE_RANK`, from 0, and how many there are from `NNODES`."""
    gpus_per_node: Annotated[int, Field(strict=True, ge=0, le=16)]
    """Of each pod; 0 for a run on CPUs."""

    def needs(self) -> Needs:
        """Nothing but a number for each pod."""
        return Needs(
            nodes=self.nodes,
            processes_per_node=1,
            gpus_per_node=self.gpus_per_node,
            rendezvous=Rendezvous.NONE,
            success=Success.ALL_RANKS,
            restart=RestartUnit.ONE_RANK,
        )
