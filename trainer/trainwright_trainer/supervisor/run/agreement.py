"""Agreement: at which tick every rank of the run acts together. No time and no sockets here.

Every rank holds at its next boundary once it has answered, so none can be past the tick after the highest answer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from trainwright_trainer.rank.messages import Action
from trainwright_trainer.supervisor.wire.messages import Position


@dataclass(frozen=True, slots=True)
class AtTick:
    """Everybody acts at the boundary of this tick."""

    tick: int


@dataclass(frozen=True, slots=True)
class TooLate:
    """Every rank is past its last tick: they finish by themselves."""


@dataclass(frozen=True, slots=True)
class Impossible:
    """A rank cannot take part."""

    why: str


Decision = AtTick | TooLate | Impossible


class Agreement:
    """Collects one answer from each node."""

    def __init__(self, request: int, action: Action, nodes: Collection[int]) -> None:
        self.request = request
        self.action = action
        self._nodes = frozenset(nodes)
        self._positions: dict[int, Position] = {}

    def answer(self, node: int, position: Position) -> None:
        """Note an answer; one to an earlier question is passed over."""
        if position.request == self.request and node in self._nodes:
            self._positions[node] = position

    @property
    def silent_nodes(self) -> list[int]:
        return sorted(self._nodes - self._positions.keys())

    def decision(self) -> Decision | None:
        """What follows from the answers so far; None while it is open."""
        for position in self._positions.values():
            if position.absent is not None:
                return Impossible(position.absent)
        if self.silent_nodes:
            return None
        ticks = [position.tick for position in self._positions.values() if position.tick is not None]
        return AtTick(max(ticks) + 1) if ticks else TooLate()
