"""Horovod: ranks that mpirun starts, and ring-allreduce between them."""

from typing import ClassVar, Literal

from trainwright.handshake import MPI, Guarantee, MPIName, Needs, Rendezvous, Success
from trainwright.topology.torch import TorchTopology


class Horovod(TorchTopology):
    """``kind: horovod``: Horovod on torch, under mpirun."""

    title: ClassVar[str] = "Horovod"
    engine: ClassVar[Literal["horovod"]] = "horovod"
    checkpoint_format: ClassVar[str] = "torch"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset(Guarantee)

    kind: Literal["horovod"] = "horovod"
    """Horovod on torch."""
    mpi: MPIName = "openmpi"
    """The MPI in the image."""
    launcher_is_node: bool = False
    """Whether the launcher's pod is the first node, with its share of the GPUs, instead of an additional pod."""

    def needs(self) -> Needs:
        """A launcher, and a list of hosts for it."""
        mpi = MPI(self.mpi, launcher_holds_ranks=self.launcher_is_node)
        return super().needs()._replace(rendezvous=Rendezvous.MPI_HOSTFILE, success=Success.LAUNCHER, mpi=mpi)
