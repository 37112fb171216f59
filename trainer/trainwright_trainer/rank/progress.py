"""Progress of a rank's main thread, for the heartbeat that another thread sends. Costs the main thread a few assignments."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median

from trainwright_trainer.rank.messages import Beat, Phase

LEARNED_TICKS = 33
"""Of which the median is told: an odd number, and a few minutes at most."""
ENOUGH_TICKS = 5
"""Below that there is no median: the first tick compiles, allocates and opens connections."""


class Progress:
    """Written by the main thread, read by the heartbeat's. A reading between two assignments is a moment old, no more."""

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
        self.mark()
        self._tick = tick
        if self._tick_began is not None:
            self._seconds.setdefault(self._phase, deque(maxlen=LEARNED_TICKS)).append(self._at - self._tick_began)
        self._tick_began = self._at

    def beat(self) -> Beat:
        """How it stands now."""
        seconds = tuple(self._seconds.get(self._phase, ()))
        learned = median(seconds) if len(seconds) >= ENOUGH_TICKS else None
        return Beat(tick=self._tick, marks=self._marks, idle_seconds=max(0.0, self._clock() - self._at), tick_seconds=learned)
