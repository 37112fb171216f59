"""What every topology offers."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol

from trainwright.handshake import Binding, Guarantee, Needs, Process
from trainwright.topology.process import Work


class Topology(Protocol):
    """The processes of a run and how they work together. A topology is a model too: its fields are what a run states of it."""

    title: ClassVar[str]
    engine: ClassVar[Literal["ddp"]]
    """The trainer's engine that plays it."""
    keeps: ClassVar[frozenset[Guarantee]]
    """Guarantees that the topology itself allows, under our trainer."""

    def needs(self) -> Needs:
        """What it asks of a target."""

    def processes(self, binding: Binding, work: Work) -> dict[str, Process]:
        """Role -> what each of its pods runs, from the binding alone."""
