"""What every topology offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from trainwright.handshake import Binding, Guarantee, Needs, Process, Variable
from trainwright.topology.process import Work
from trainwright.topology.sharding import Sharding

Engine = Literal["ddp", "fsdp2", "deepspeed", "horovod", "tensorflow", "xgboost"]


class Topology(Protocol):
    """The processes of a run and how they work together. A topology is a model too: its fields are what a run states of it."""

    @property
    def title(self) -> str:
        """What people call it."""

    @property
    def engine(self) -> Engine:
        """The trainer's engine that plays it."""

    @property
    def checkpoint_format(self) -> str:
        """What its checkpoints are read by: `torch` where rank 0 writes the whole model, otherwise the engine's name."""

    @property
    def keeps(self) -> frozenset[Guarantee]:
        """Guarantees that the topology itself allows, under our trainer."""

    def needs(self) -> Needs:
        """What it asks of a target."""

    def sharding(self) -> Sharding:
        """Over how many ranks it spreads the model states."""

    def settings(self) -> Mapping[str, Any]:
        """What the trainer's engine is told beside the work, by the contract's names."""

    def variables(self, binding: Binding, work: Work) -> tuple[Variable, ...]:
        """What each rank is told by its environment, from the binding alone."""

    def processes(self, binding: Binding, work: Work) -> dict[str, Process]:
        """Role -> what each of its pods runs, from the binding alone."""
