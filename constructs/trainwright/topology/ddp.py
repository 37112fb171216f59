"""torch DistributedDataParallel: every rank holds the whole model and sees its share of each batch."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright.handshake import Binding, Guarantee, Needs, Process, Rendezvous, RestartUnit, Success
from trainwright.model import Model
from trainwright.topology.process import Work, torch_process


class DDP(Model):
    """``kind: ddp``: static torch DDP."""

    title: ClassVar[str] = "DDP"
    engine: ClassVar[Literal["ddp"]] = "ddp"
    keeps: ClassVar[frozenset[Guarantee]] = frozenset(Guarantee)
    """Guarantees that the topology itself allows, under our trainer."""

    kind: Literal["ddp"]
    """torch DDP."""
    nodes: Annotated[int, Field(ge=1, le=4096)]
    """Pods, each on a node of its own where it takes a whole one."""
    gpus_per_node: Annotated[int, Field(ge=0, le=16)]
    """0 for a run on CPUs."""
    processes_per_node: Annotated[int, Field(ge=1, le=256)] | None = None
    """Only for a run on CPUs (default 1); on GPUs there is one process per GPU."""

    @model_validator(mode="after")
    def _one_process_per_gpu(self) -> Self:
        if self.gpus_per_node and self.processes_per_node not in (None, self.gpus_per_node):
            raise ValueError("remove processes_per_node: on GPUs there is one process per GPU")
        return self

    def needs(self) -> Needs:
        """All ranks start together, find rank 0 at a fixed address, and start again together."""
        return Needs(
            nodes=self.nodes,
            processes_per_node=self.gpus_per_node or self.processes_per_node or 1,
            gpus_per_node=self.gpus_per_node,
            rendezvous=Rendezvous.STATIC,
            success=Success.ALL_RANKS,
            restart=RestartUnit.ALL_RANKS,
        )

    def processes(self, binding: Binding, work: Work) -> dict[str, Process]:
        """The same process in every pod that holds ranks."""
        process = torch_process(self.needs(), binding, work)
        return {role.name: process for role in binding.roles if role.holds_ranks}
