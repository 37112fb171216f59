"""torch DistributedDataParallel: every rank holds the whole model and sees its share of each batch."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from trainwright.handshake import Binding, Needs, Rendezvous, Success, Variable
from trainwright.model import changed_fields
from trainwright.rendezvous.mpi import MPI, MPIName
from trainwright.rendezvous.torch import meeting
from trainwright.topology.process import Work
from trainwright.topology.torch import ElasticTopology
from trainwright_trainer.contract.base import PlacedError
from trainwright_trainer.contract.engine import DDPSettings
from trainwright_trainer.contract.layout import RANK_COMMAND
from trainwright_trainer.contract.sharding import Sharding, of_ddp


class DDP(ElasticTopology):
    """``kind: ddp``: torch DDP."""

    title: ClassVar[str] = "DDP"
    engine: ClassVar[Literal["ddp"]] = "ddp"
    checkpoint_format: ClassVar[str] = "torch"

    kind: Literal["ddp"] = "ddp"
    """torch DDP."""
    mpi: MPIName | None = None
    """Start the ranks with mpirun of this implementation; torch still uses NCCL or gloo."""

    ddp: DDPSettings | None = None
    """Settings of engine ddp."""

    @model_validator(mode="after")
    def _one_way_to_start(self) -> Self:
        if self.elastic and self.mpi:
            message = "mpirun starts a fixed number of ranks, so mpi and elastic exclude each other; remove one of them"
            raise PlacedError(message, "mpi")
        return self

    def needs(self) -> Needs:
        """Static, elastic, or started by mpirun."""
        needs = super().needs()
        if self.mpi:
            return needs._replace(rendezvous=Rendezvous.MPI_HOSTFILE, success=Success.LAUNCHER, of_rendezvous=MPI(self.mpi))
        return needs

    def settings(self) -> Mapping[str, Any]:
        """Where the run states any, so that no identity moves."""
        return {"ddp": self.ddp} if self.ddp and changed_fields(self.ddp) else {}

    def sharding(self) -> Sharding:
        """Every rank holds everything."""
        return of_ddp(self.ddp, self.fewest_ranks)

    def variables(self, binding: Binding, work: Work) -> tuple[Variable, ...]:
        """As of every torch topology; under mpirun where rank 0 is as well. Our program reads it in the specification."""
        told = super().variables(binding, work)
        ours = work.command is None and work.program == RANK_COMMAND
        return (*told, *meeting(binding, work.name)) if self.mpi and not ours else told
