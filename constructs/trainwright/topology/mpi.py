"""Programs of MPI alone: benchmarks of a network, simulations, or any line of mpirun of one's own."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright import handshake
from trainwright.handshake import Guarantee, MPIName, Needs, Rendezvous, RestartUnit, Success
from trainwright.topology.base import PodTopology


class MPI(PodTopology):
    """``kind: mpi``: a program of MPI, which the run's own mpirun starts."""

    title: ClassVar[str] = "MPI"
    engine: ClassVar[None] = None
    checkpoint_format: ClassVar[str] = "torch"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset()
    only_commands: ClassVar[str] = "mpirun starts a program that is not ours, with options of the run's own"

    kind: Literal["mpi"] = "mpi"
    """A program of MPI, which the run's own mpirun starts."""
    nodes: Annotated[int, Field(strict=True, ge=1, le=4096)]
    """Number of pods that hold ranks."""
    gpus_per_node: Annotated[int, Field(strict=True, ge=0, le=16)]
    """0 for a run on CPUs."""
    processes_per_node: Annotated[int, Field(strict=True, ge=1, le=256)] | None = None
    """Slots of a pod in the host file. Default: one per GPU, or 1 on CPUs."""
    mpi: MPIName = "openmpi"
    """The MPI in the image."""
    launcher_is_node: bool = False
    """Whether the launcher's pod is the first node, with its share of the GPUs, instead of an additional pod."""

    def needs(self) -> Needs:
        """A launcher, and a list of hosts for it."""
        return Needs(
            nodes=self.nodes,
            processes_per_node=self.processes_per_node or self.gpus_per_node or 1,
            gpus_per_node=self.gpus_per_node,
            rendezvous=Rendezvous.MPI_HOSTFILE,
            success=Success.LAUNCHER,
            restart=RestartUnit.ALL_RANKS,
            mpi=handshake.MPI(self.mpi, launcher_holds_ranks=self.launcher_is_node),
        )
