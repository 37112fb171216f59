"""What every topology offers, what topologies share, and how one spreads the model states over its ranks."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field

from trainwright.handshake import Binding, Guarantee, Needs, Process, Rendezvous, Success, Variable
from trainwright.model import Model
from trainwright.topology.process import Work, processes, rank_variables
from trainwright_trainer.contract.engine import EngineName
from trainwright_trainer.contract.sharding import Sharding


class Topology(Protocol):
    """The processes of a run and how they work together. A topology is a model too: its fields are what a run states of it."""

    @property
    def title(self) -> str:
        """What people call it."""

    @property
    def engine(self) -> EngineName | None:
        """The trainer's engine for networks on it; None where it grows trees, or where only a command fits."""

    @property
    def checkpoint_format(self) -> str:
        """What its checkpoints are read by: `torch` where rank 0 writes the whole model, otherwise the engine's name."""

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """What the topology itself can guarantee, under our trainer."""

    @property
    def only_commands(self) -> str:
        """Why only a command fits; empty where a workload with an engine does."""

    def needs(self) -> Needs:
        """What it asks of a target."""

    def sharding(self) -> Sharding:
        """How it spreads the model states over its ranks."""

    def settings(self) -> Mapping[str, Any]:
        """What the trainer's engine is told besides the work, by the contract's names."""

    def variables(self, binding: Binding, work: Work) -> tuple[Variable, ...]:
        """What each rank is told by its environment, from the binding alone."""

    def processes(self, binding: Binding, work: Work) -> dict[str, Process]:
        """Role -> what each of its pods runs, from the binding alone."""


NodeCount = Annotated[int, Field(strict=True, ge=1, le=4096)]
GpuCount = Annotated[int, Field(strict=True, ge=0, le=16)]
RankCount = Annotated[int, Field(strict=True, ge=1, le=256)]


class PodTopology(Model):
    """A topology whose ranks each hold the whole model, unless it says otherwise."""

    rendezvous: ClassVar[Rendezvous]
    success: ClassVar[Success] = Success.ALL_RANKS
    only_commands: ClassVar[str] = ""

    kind: str
    """Narrowed by each topology to its own names."""
    nodes: NodeCount
    """Number of pods; each has its own node if it takes a whole one."""
    gpus_per_node: GpuCount
    """0 for a run on CPUs."""

    @property
    def ranks_per_node(self) -> int:
        return 1

    def needs(self) -> Needs:
        """What it asks of a target."""
        return Needs(self.nodes, self.ranks_per_node, self.gpus_per_node, self.rendezvous, self.success)

    def sharding(self) -> Sharding:
        """Every rank holds everything."""
        return Sharding(self.needs().world_size)

    def settings(self) -> Mapping[str, Any]:
        """Nothing besides the work, for an engine without settings of its own."""
        return {}

    def variables(self, binding: Binding, work: Work) -> tuple[Variable, ...]:
        """The specification's place, or what a program reads that our supervisor does not start."""
        return rank_variables(self.needs(), binding, work)

    def processes(self, binding: Binding, work: Work) -> dict[str, Process]:
        """The same process in every pod that holds ranks, and a launcher where there is one."""
        return processes(self.needs(), binding, work)


class CommandTopology(PodTopology):
    """A topology that our trainer has no engine for: its pods run a command."""

    engine: ClassVar[None] = None
    checkpoint_format: ClassVar[str] = "torch"
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset()
