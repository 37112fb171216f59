"""torch DistributedDataParallel: every rank holds the whole model and sees its share of each batch."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from trainwright.handshake import MPI, Binding, MPIName, Needs, Rendezvous, Success, Variable
from trainwright.topology.process import Work, torch_meeting
from trainwright.topology.torch import ElasticTopology


class DDP(ElasticTopology):
    """``kind: ddp``: torch DDP."""

    title: ClassVar[str] = "DDP"
    engine: ClassVar[Literal["ddp"]] = "ddp"
    checkpoint_format: ClassVar[str] = "torch"

    kind: Literal["ddp"]
    """torch DDP."""
    mpi: MPIName | None = None
    """Start the ranks with mpirun of this implementation; torch still uses NCCL or gloo."""

    @model_validator(mode="after")
    def _one_way_to_start(self) -> Self:
        if self.elastic and self.mpi:
            raise ValueError("remove mpi or elastic: mpirun starts a fixed number of ranks")
        return self

    def needs(self) -> Needs:
        """Static, elastic, or started by mpirun."""
        needs = super().needs()
        if self.mpi:
            return needs._replace(rendezvous=Rendezvous.MPI_HOSTFILE, success=Success.LAUNCHER, mpi=MPI(self.mpi))
        return needs

    def variables(self, binding: Binding, work: Work) -> tuple[Variable, ...]:
        """As of every torch topology; under mpirun where rank 0 is as well."""
        meeting = torch_meeting(binding, work) if self.mpi else ()
        return (*super().variables(binding, work), *meeting)
