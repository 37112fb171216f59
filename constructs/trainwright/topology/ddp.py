"""torch DistributedDataParallel: every rank holds the whole model and sees its share of each batch."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from trainwright.handshake import MPI, Binding, MPIName, Needs, Rendezvous, Success, Variable
from trainwright.model import changed_fields
from trainwright.topology.base import Sharding
from trainwright.topology.process import Work, torch_meeting
from trainwright.topology.torch import ElasticTopology
from trainwright_trainer.contract.base import PlacedError
from trainwright_trainer.contract.engine import DDPSettings


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
            return needs._replace(rendezvous=Rendezvous.MPI_HOSTFILE, success=Success.LAUNCHER, mpi=MPI(self.mpi))
        return needs

    def settings(self) -> Mapping[str, Any]:
        """Where the run states any, so that no identity moves."""
        return {"ddp": self.ddp} if self.ddp and changed_fields(self.ddp) else {}

    @property
    def bucket_megabytes(self) -> int | None:
        """MiB of a bucket; None for torch's default."""
        return self.ddp.bucket_cap_mb if self.ddp else None

    def sharding(self) -> Sharding:
        """Every rank holds everything."""
        return Sharding(bucket=(self.bucket_megabytes or 0) * 2**20 // 4)

    def variables(self, binding: Binding, work: Work) -> tuple[Variable, ...]:
        """As of every torch topology; under mpirun where rank 0 is as well."""
        meeting = torch_meeting(binding, work) if self.mpi else ()
        return (*super().variables(binding, work), *meeting)
