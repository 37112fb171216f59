"""What mpirun starts: a program of MPI alone, such as a benchmark of a network, a simulation, or any line of one's own."""

from typing import ClassVar, Literal

from trainwright.handshake import Needs, Rendezvous, Success
from trainwright.rendezvous import mpi
from trainwright.rendezvous.mpi import MPIName
from trainwright.topology.base import CommandTopology, NodeCount, PodTopology, RankCount


class MpirunTopology(PodTopology):
    """Ranks that mpirun starts in their pods."""

    rendezvous: ClassVar[Rendezvous] = Rendezvous.MPI_HOSTFILE
    success: ClassVar[Success] = Success.LAUNCHER

    processes_per_node: RankCount | None = None
    mpi: MPIName = "openmpi"
    """The MPI in the image."""
    launcher_is_node: bool = False
    """Whether the launcher's pod is the first node, with its share of the GPUs, instead of an additional pod."""

    @property
    def ranks_per_node(self) -> int:
        return self.processes_per_node or self.gpus_per_node or 1

    def needs(self) -> Needs:
        """A launcher, and a list of hosts for it."""
        return super().needs()._replace(of_rendezvous=mpi.MPI(self.mpi, launcher_holds_ranks=self.launcher_is_node))


class MPI(MpirunTopology, CommandTopology):
    """``kind: mpi``: a program of MPI, which the run's own mpirun starts."""

    title: ClassVar[str] = "MPI"
    only_commands: ClassVar[str] = "mpirun starts a program that is not ours, with options of the run's own"

    kind: Literal["mpi"] = "mpi"
    """A program of MPI, which the run's own mpirun starts."""
    nodes: NodeCount
    """Number of pods that hold ranks."""
    processes_per_node: RankCount | None = None
    """Slots of a pod in the host file. Default: one per GPU, or 1 on CPUs."""
