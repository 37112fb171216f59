"""TensorFlow with parameter servers: workers compute, and servers beside them hold the variables."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.handshake import Guarantee, Needs, Rendezvous, RestartUnit, Success
from trainwright.topology.base import PodTopology


class ParameterServer(PodTopology):
    """``kind: parameter-server``: TensorFlow with parameter servers."""

    title: ClassVar[str] = "ParameterServer"
    engine: ClassVar[None] = None
    checkpoint_format: ClassVar[str] = "tensorflow"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset()
    only_commands: ClassVar[str] = (
        "our trainer reduces gradients among workers (kind: multi-worker-mirrored), and a parameter server has no rank"
    )

    kind: Literal["parameter-server"] = "parameter-server"
    """TensorFlow with parameter servers."""
    nodes: Annotated[int, Field(strict=True, ge=1, le=4096)]
    """Number of workers."""
    gpus_per_node: Annotated[int, Field(strict=True, ge=0, le=16)]
    """Of a worker; 0 for a run on CPUs."""
    parameter_servers: Annotated[int, Field(strict=True, ge=1, le=4096)] = 1
    """Number of pods that hold the variables; role `ps`."""
    coordinator: bool = False
    """Whether a chief without GPUs directs the workers, as ParameterServerStrategy of TensorFlow 2 has it; role `chief`. Without
    it, worker 0 is chief.
    """

    def needs(self) -> Needs:
        """Every task knows all others from the start; the chief's end is that of the run."""
        return Needs(
            nodes=self.nodes,
            processes_per_node=1,
            gpus_per_node=self.gpus_per_node,
            rendezvous=Rendezvous.TF_CONFIG,
            success=Success.CHIEF,
            restart=RestartUnit.ONE_RANK,
            chief=self.coordinator,
            parameter_servers=self.parameter_servers,
        )
