"""Clocks of machines, held against each other by ranks that are threads here, each with a clock of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from trainwright_trainer.rank.preflight import Control
from trainwright_trainer.rank.preflight.network import WrongClockError, clock_skew, compare_clocks


@dataclass
class Ranks:
    """Threads that add up and tell each other, through this process's memory."""

    count: int
    slow: dict[int, float] = field(default_factory=dict)
    """Seconds for which what is told is on its way to a rank."""

    def __post_init__(self) -> None:
        self._barrier = threading.Barrier(self.count)
        self._values: list[Sequence[float]] = [()] * self.count

    def control(self, rank: int) -> Control:
        def exchange(values: Sequence[float]) -> list[Sequence[float]]:
            self._values[rank] = values
            self._barrier.wait()
            found = list(self._values)
            self._barrier.wait()
            return found

        def reduce_sums(values: Sequence[float]) -> list[float]:
            return [sum(column) for column in zip(*exchange(values), strict=True)]

        def broadcast(value: float) -> float:
            told = exchange([value])[0][0]
            time.sleep(self.slow.get(rank, 0))
            return told

        return Control(broadcast, reduce_sums)

    def each(self, work: Callable[[int], float]) -> list[float]:
        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(work, range(self.count)))


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> threading.local:
    """Seconds by which this thread's clock is ahead."""
    mine, right = threading.local(), time.time
    monkeypatch.setattr("trainwright_trainer.rank.preflight.network.time.time", lambda: right() + getattr(mine, "seconds", 0.0))
    return mine


def skews(ranks: Ranks, ahead: threading.local, clocks_ahead: Sequence[float]) -> list[float]:
    def measure(rank: int) -> float:
        ahead.seconds = clocks_ahead[rank]
        return clock_skew(ranks.control(rank))

    return ranks.each(measure)


def test_the_skew_of_each_against_rank_0(ahead: threading.local) -> None:
    assert skews(Ranks(3), ahead, [5, 5, 5]) == pytest.approx([0, 0, 0], abs=0.01)
    assert skews(Ranks(3), ahead, [100, 130, 70]) == pytest.approx([0, 30, -30], abs=1)


def test_what_is_uncertain_is_taken_off(ahead: threading.local) -> None:
    """A word that is on its way for 0.1 s looks like a clock that is 0.05 s off, and never counts as one."""
    slow = Ranks(2, {1: 0.1})
    assert skews(slow, ahead, [0, 0])[1] == pytest.approx(0, abs=0.01)
    assert 9 < skews(slow, ahead, [0, 10])[1] < 10


def test_who_is_held_up_between_two_readings_is_not_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loses the processor after it has read its clock, before its part of each round begins."""
    held_up, right = threading.local(), time.time

    def read() -> float:
        now, held_up.turn = right(), getattr(held_up, "turn", 0) + 1
        time.sleep(getattr(held_up, "seconds", 0.0) * (held_up.turn % 2))
        return now

    def measure(rank: int) -> float:
        held_up.seconds = 0.1 * rank
        return clock_skew(ranks.control(rank))

    ranks = Ranks(2)
    monkeypatch.setattr("trainwright_trainer.rank.preflight.network.time.time", read)
    assert ranks.each(measure) == pytest.approx([0, 0], abs=0.01)


@pytest.mark.parametrize(("found", "blamed"), [
    ([0, 0, 0], {}),
    ([0, 0.4, -0.4], {}),
    ([0, 0, 3], {2: "its clock is 3 s ahead of that of rank 0's node"}),
    ([0, -3, 0, 0], {1: "its clock is 3 s behind that of rank 0's node"}),
    ([0, 3], {1: "its clock is 3 s ahead of that of rank 0's node"}),
    ([0, -60, -61, -60], {0: "its clock differs from most others' by 60 s or more"}),
    ([0, 0, 3, 3], {2: "its clock is 3 s ahead", 3: "its clock is 3 s ahead"}),
])
def test_whose_clock_is_to_blame(found: list[float], blamed: dict[int, str]) -> None:
    for rank in range(len(found)):
        if rank in blamed:
            with pytest.raises(WrongClockError, match=f"^{blamed[rank]}.*max_clock_skew_seconds is 2; the ledger"):
                compare_clocks(found, rank, 2)
        else:
            compare_clocks(found, rank, 2)
