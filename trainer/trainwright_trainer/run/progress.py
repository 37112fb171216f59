"""How far a rank has come: which boundary it may pass, and the signs of life that its main thread leaves.

A rank is *in* tick ``n`` from the moment it passes the boundary before ``n`` until it passes the next one. Once it has said where
it is, it passes no boundary until the answer comes. So node 0 hears ticks that stay true, and one more than the highest is a
boundary that no rank has passed and every rank still reaches: nobody is held inside a tick, where others may wait for it.
"""

from __future__ import annotations

import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs what all the rest does
    from collections.abc import Callable
    from typing import Literal

    from trainwright_trainer.contract.metrics import Phase

    Action = Literal["stop", "save"]

LEARNED_TICKS = 33
"""Of which the median is told: an odd number, and a few minutes at most."""
ENOUGH_TICKS = 5
"""Below that there is no median: the first tick compiles, allocates and opens connections."""


class Hold:
    """The state of one rank. Not thread-safe: its owner locks."""

    def __init__(self) -> None:
        self._tick: int | None = None
        self._request: int | None = None
        self._due: dict[int, Action] = {}

    @property
    def held(self) -> bool:
        """Whether an answer is awaited, so that no boundary may be passed."""
        return self._request is not None

    def where(self, request: int) -> int | None:
        """The tick the rank is in, or None before the first; from now on it is held, unless there is nothing to hold."""
        if self._tick is not None:
            self._request = request
        return self._tick

    def act(self, request: int, action: Action, tick: int) -> None:
        """Let go, and do ``action`` at the boundary before ``tick``. An answer to an earlier request is out of date."""
        if request != self._request:
            return
        self._request = None
        if self._due.get(tick) != "stop":
            self._due[tick] = action

    def carry(self, request: int) -> None:
        """Let go; nothing was agreed."""
        if request == self._request:
            self._request = None

    def enter(self, tick: int) -> Action | None:
        """Pass the boundary before ``tick``. Gives what was agreed to do there, before the tick's own work.

        Raises ``RuntimeError`` if the rank is held: the caller waits first.
        """
        if self.held:
            raise RuntimeError("a held rank passes no boundary")
        self._tick = tick
        return self._due.pop(tick, None)


class Progress:
    """Written by the main thread, read by the heartbeat's. A reading between two assignments is at most a moment old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tick: int | None = None
        self._marks = 0
        self._phase: Phase = "starting"
        self._at = clock()
        self._tick_began: float | None = None
        self._seconds: dict[Phase, deque[float]] = {}

    def mark(self) -> None:
        """The main thread goes on."""
        self._marks += 1
        self._at = self._clock()

    def phase(self, phase: Phase) -> None:
        """It begins something else. What the present tick takes says nothing then: a save is part of it."""
        self.mark()
        self._phase, self._tick_began = phase, None

    def tick(self, tick: int) -> None:
        """It passes the boundary before a tick."""
        self.reach(tick)
        self.lap()

    def reach(self, tick: int) -> None:
        """It passes that boundary, and says elsewhere when a step is done."""
        self.mark()
        self._tick = tick

    def lap(self) -> None:
        """A unit of work is done, as long as those whose median is told."""
        if self._tick_began is not None:
            self._seconds.setdefault(self._phase, deque(maxlen=LEARNED_TICKS)).append(self._at - self._tick_began)
        self._tick_began = self._at

    def beat(self) -> dict[str, object]:
        """How it stands now: a ``Heartbeat``."""
        from statistics import median  # it takes 10 ms to import

        seconds = tuple(self._seconds.get(self._phase, ()))
        learned = median(seconds) if len(seconds) >= ENOUGH_TICKS else None
        idle = max(0.0, self._clock() - self._at)
        return {"type": "beat", "tick": self._tick, "marks": self._marks, "idle_seconds": idle, "tick_seconds": learned}
