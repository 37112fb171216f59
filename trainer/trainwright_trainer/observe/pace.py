"""Pace of ranks: who takes longer for its own part of a step than the others. No time and no sockets here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.metrics import Measurements

SLOW = 1.3
"""A rank is slow above so many times the median of all."""
IN_A_ROW = 2
"""Logging intervals; one alone may be another program's, or the garbage collector's."""
SHORTEST_SECONDS = 0.001
"""Median below which differences say nothing: they are the operating system's."""


class RunPace:
    """Of all ranks of a run, in metrics, and in a line of the log where the slow ones change."""

    def __init__(self, ranks: int, measurements: Measurements) -> None:
        self._gathering, self._stragglers, self._measurements = Gathering(ranks), Stragglers(), measurements

    def heard(self, step: int, own_seconds: Mapping[int, float]) -> None:
        """What the own part of a step takes, by rank, in one of the pods."""
        seconds = self._gathering.add(own_seconds)
        if seconds is None:
            return
        before, slowest = self._stragglers.ranks, self._stragglers.judge(seconds)
        values = {"trainwright_slowest_rank": slowest.rank, "trainwright_slowest_rank_ratio": slowest.ratio}
        self._measurements.update(values)
        if self._stragglers.ranks != before:
            ratio = round(slowest.ratio, 2)
            get_log().warning("stragglers", step=step, ranks=list(self._stragglers.ranks), slowest=slowest.rank, ratio=ratio)


class Gathering:
    """Puts together what all ranks last said. Ranks are at most a step apart, so the same interval is meant, or the next."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._seconds: dict[int, float] = {}

    def add(self, seconds: Mapping[int, float]) -> dict[int, float] | None:
        """Seconds by rank, whenever all have said something since the last time."""
        self._seconds.update(seconds)
        if len(self._seconds) < self._size:
            return None
        whole, self._seconds = self._seconds, {}
        return whole


@dataclass(frozen=True, slots=True)
class Slowest:
    rank: int
    ratio: float
    """Its seconds over the median of all."""


class Stragglers:
    """Which ranks have been slow in the latest intervals."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}
        self.ranks: tuple[int, ...] = ()
        """Slow so often in a row that it is no accident, ascending."""

    def judge(self, seconds: Mapping[int, float]) -> Slowest:
        """Take the seconds of all ranks for one interval."""
        usual = median_low(seconds.values())  # of two ranks the faster one: a mean would hide what it is to show
        slow = {rank for rank, own in seconds.items() if own > SLOW * usual and usual >= SHORTEST_SECONDS}
        self._row = {rank: self._row.get(rank, 0) + 1 for rank in slow}
        self.ranks = tuple(sorted(rank for rank, times in self._row.items() if times >= IN_A_ROW))
        slowest = max(seconds, key=lambda rank: seconds[rank])
        return Slowest(slowest, seconds[slowest] / max(usual, 1e-9))
