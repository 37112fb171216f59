"""Collective link: the ranks of a run agree on a boundary among themselves, because nothing links the supervisors of its pods.

Each rank hears from its own supervisor alone what its pod wants. At every boundary the ranks add up their wishes; so all of them
stop or save at the same one, whichever pod was told. That is one small collective on the host for each tick.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence

from trainwright_trainer.rank.link import BEAT_SECONDS, SupervisorLink, leave_at_once
from trainwright_trainer.rank.messages import Action

_ACTIONS: tuple[Action, ...] = ("stop", "save")
"""The first that anybody wants is done: who stops saves too."""


class CollectiveLink(SupervisorLink):
    """Takes the same arguments as its base. A rank that is alone needs no :meth:`agree_through`."""

    def __init__(
        self, connection: socket.socket, on_lost: Callable[[], object] = leave_at_once, beat_seconds: float = BEAT_SECONDS
    ) -> None:
        self._wished: set[Action] = set()
        self._reduce: Callable[[Sequence[float]], list[float]] | None = None
        super().__init__(connection, on_lost, beat_seconds)  # last: its threads use what stands above

    def agree_through(self, reduce_sums: Callable[[Sequence[float]], list[float]]) -> None:
        self._reduce = reduce_sums

    def boundary(self, tick: int) -> Action | None:
        super().boundary(tick)
        with self._changed:
            wishes = [float(action in self._wished) for action in _ACTIONS]
        sums = wishes if self._reduce is None else self._reduce(wishes)
        for action, wanted in zip(_ACTIONS, sums, strict=True):
            if wanted:
                self._agreed(action)
                return action
        return None

    def _asked(self, action: Action) -> None:
        self._wished.add(action)

    def _agreed(self, action: Action) -> None:
        with self._changed:
            self._wished -= {action, "save"}
            if self._asked_at is None:  # another pod was told: this rank's grace period is at most as far gone
                self._asked_at = time.monotonic()
