"""Speed of a logging interval, and what of a step is this rank's own."""

from __future__ import annotations

import time

import pytest

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.rank.link import SoloLink
from trainwright_trainer.training.reporting import Meter, WatchedGroup


class Clock:
    """Stands still while nobody moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_waits_are_not_a_ranks_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    meter, clock = Meter(), Clock()
    monkeypatch.setattr("trainwright_trainer.training.reporting.time", clock)
    for _ in range(2):
        with meter.step(32):
            clock.sleep(1)
            with meter.waiting():
                clock.sleep(5)
    with meter.waiting():  # for an evaluation
        clock.sleep(7)
    meter.waited_for_data(0.5)
    speed = meter.read()
    assert (speed.split.step_seconds, speed.split.waited_seconds, speed.split.data_seconds) == pytest.approx((6, 5, 0.25))
    assert speed.samples_per_second == pytest.approx(32 / 6)
    with meter.step(32):
        clock.sleep(2)
    split = meter.read(0.5).split
    assert (split.step_seconds, split.waited_seconds, split.data_seconds) == pytest.approx((2, 0.5, 0))


def test_a_call_that_computes_and_waits_in_turns() -> None:
    meter = Meter()
    with meter.step(1), meter.computing(time.thread_time):
        time.sleep(0.05)
        until = time.thread_time() + 0.03
        while time.thread_time() < until:
            pass
    split = meter.read().split
    assert split.step_seconds >= 0.08
    assert 0.04 < split.waited_seconds <= split.step_seconds - 0.03


def test_a_watched_group_tells_before_and_after_each_wait() -> None:
    class Counting(SoloLink):
        def __init__(self) -> None:
            self.marks = 0

        def mark(self) -> None:
            self.marks += 1

    link, meter = Counting(), Meter()
    seen: list[int] = []

    class Inner:
        def reduce_sums(self, values: object) -> list[float]:
            seen.append(link.marks)
            time.sleep(0.02)
            return [1.0]

        def broadcast(self, value: ExitCode) -> ExitCode:
            raise RuntimeError("connection closed by peer")

    group = WatchedGroup(Inner(), link, meter)  # type: ignore[arg-type]
    with meter.step(1):
        assert group.reduce_sums([1.0]) == [1.0]
    assert (seen, link.marks) == ([1], 2)
    assert meter.read().split.waited_seconds >= 0.019
    with pytest.raises(RuntimeError, match="closed"):
        group.broadcast(ExitCode.DONE)
    assert link.marks == 3
