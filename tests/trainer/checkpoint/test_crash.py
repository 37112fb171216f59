"""A writer killed at any moment: never a wrong byte, never a lost committed step, nothing to set aside.

``TRAINWRIGHT_CRASH_TEST_KILLS`` sets how many writers the long test kills.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.trainer.checkpoint.writers import FAST, Writers, check

from trainwright_trainer.checkpoint import CheckpointStore, LeaseTiming, open_volume

KILLS = int(os.environ.get("TRAINWRIGHT_CRASH_TEST_KILLS", "300"))
OBJECT_STORE_KILLS = 4
SLOWER = LeaseTiming(beat_seconds=0.1, expiry_seconds=0.6, patience_seconds=60.0, poll_seconds=0.05)


@pytest.fixture
def writers() -> Iterator[Writers]:
    writers = Writers()
    yield writers
    writers.close()


def newest_after(directory: Path | str, committed: int) -> int:
    """The newest step, which is the one that was announced last, or the one whose announcement was cut off."""
    steps = check(directory)
    newest = steps[0] if steps else 0
    assert newest in (committed, committed + 1)
    assert len(steps) >= min(2, newest), "the one before the newest stays"
    return newest


def kill_at_random_moments(writers: Writers, directory: Path, kills: int) -> None:
    chance = random.Random(20)
    newest = 0
    for number in range(kills):
        writers.start(directory, f"attempt-{number}", steps=1_000_000)
        if chance.random() < 0.1:
            os.kill(writers.pid, signal.SIGKILL)  # perhaps before it has the lease
            writers.finish()
        else:
            writers.wait_for(chance.choice((0, 0, 1, 2)), chance.uniform(0, 0.03))
            writers.kill()
        assert writers.status == -signal.SIGKILL
        newest = newest_after(directory, max(newest, writers.committed))
    assert newest > kills // 4
    writers.start(directory, "last", steps=2)
    writers.finish()
    assert (writers.status, writers.commits) == (0, [newest + 1, newest + 2])
    assert sorted(path.name for path in directory.glob("step-*")) == [f"step-{step}.last" for step in writers.commits]


def test_kills_at_random_moments(writers: Writers, memory_directory: Path) -> None:
    kill_at_random_moments(writers, memory_directory, 25)


@pytest.mark.slow
@pytest.mark.timeout(900 + 2 * KILLS)
def test_many_kills_at_random_moments(writers: Writers, memory_directory: Path) -> None:
    kill_at_random_moments(writers, memory_directory, KILLS)


@pytest.mark.slow
def test_a_kill_before_every_change_to_the_volume(writers: Writers, memory_directory: Path) -> None:
    """Three steps from the lease to retention, cut off before each open, mkdir, fsync, link and unlink in turn; then resumed."""
    quiet = replace(FAST, beat_seconds=1000.0)  # so that the changes come in the same order each time
    for point in range(10_000):
        directory = memory_directory / str(point)
        writers.start(directory, "first", steps=3, die_before=point, timing=quiet)
        writers.finish()
        if writers.status == 0:
            break
        assert writers.status == -signal.SIGKILL
        newest = newest_after(directory, writers.committed)
        if point % 7 == 0:
            writers.start(directory, "second", steps=3)
            writers.finish()
            assert (writers.status, newest_after(directory, writers.committed)) == (0, newest + 3)
            assert sorted(path.name for path in directory.glob("step-*")) == [f"step-{newest + n}.second" for n in (2, 3)]
    assert point > 80


@pytest.mark.slow
@pytest.mark.usefixtures("s3")
def test_kills_over_an_object_store(s3_store: CheckpointStore) -> None:
    chance = random.Random(3)
    directory, writers = s3_store.location(), Writers("s3")
    newest = 0
    for number in range(OBJECT_STORE_KILLS):
        writers.start(directory, f"attempt-{number}", steps=1_000_000, timing=SLOWER)
        writers.wait_for(chance.choice((0, 1, 2)), chance.uniform(0, 0.5))
        writers.kill()
        newest = newest_after(directory, max(newest, writers.committed))
    writers.start(directory, "last", steps=2, timing=SLOWER)
    writers.finish()
    writers.close()
    first = writers.commits[0]
    assert first in (newest + 1, newest + 2), "a commit may have been on its way to the server when its writer was killed"
    assert (writers.status, writers.commits) == (0, [first, first + 1])
    assert {name for name in open_volume(directory).entries("") if name.startswith("step-")} == {
        f"step-{step}.last" for step in writers.commits
    }
