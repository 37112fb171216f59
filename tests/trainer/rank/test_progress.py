"""What the signs of life say."""

from __future__ import annotations

from collections.abc import Callable

from trainwright_trainer.rank.messages import Beat
from trainwright_trainer.rank.progress import ENOUGH_TICKS, Progress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_from_the_start() -> None:
    clock = Clock()
    progress = Progress(clock)
    clock.now += 7
    assert progress.beat() == Beat(tick=None, marks=0, idle_seconds=7, tick_seconds=None)


def test_whatever_the_main_thread_says_is_progress() -> None:
    clock = Clock()
    progress = Progress(clock)
    said: list[Callable[[], None]] = [lambda: progress.phase("training"), lambda: progress.tick(1), progress.mark]
    for say in said:
        clock.now += 5
        say()
        assert progress.beat().idle_seconds == 0
    assert progress.beat().marks == 3
    assert progress.beat().tick == 1


def test_the_median_of_ticks_of_this_phase() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.phase("training")
    for tick in range(1, ENOUGH_TICKS + 2):
        progress.tick(tick)
        clock.now += 60 if tick == 1 else 2
    assert progress.beat().tick_seconds == 2
    progress.phase("evaluating")
    assert progress.beat().tick_seconds is None
    progress.phase("training")
    assert progress.beat().tick_seconds == 2


def test_a_tick_with_a_save_in_it_is_not_counted() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.phase("training")
    for tick in range(1, 30):
        progress.tick(tick)
        clock.now += 1
        progress.phase("saving")
        clock.now += 100
        progress.phase("training")
    assert progress.beat().tick_seconds is None
