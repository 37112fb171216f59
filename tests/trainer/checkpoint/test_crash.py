"""A writer killed at any moment: never a wrong byte, never a lost committed step, nothing to set aside.

``TRAINWRIGHT_CRASH_TEST_KILLS`` sets how many writers are killed at random moments.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainwright_trainer.checkpoint import CheckpointStore

SCRIPT = Path(__file__).with_name("crash_writer.py")
WRITER = runpy.run_path(str(SCRIPT))
KILLS = int(os.environ.get("TRAINWRIGHT_CRASH_TEST_KILLS", "100"))


class Writers:
    """Starts writers one after the other and follows what they say."""

    def __init__(self) -> None:
        self._nursery = subprocess.Popen([sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = 0
        self.committed = 0
        self.status: int | None = None

    def start(self, directory: Path, attempt: str, *, steps: int, die_before: int | None = None) -> None:
        assert self._nursery.stdin
        self.pid, self.status = 0, None
        command = {"directory": str(directory), "attempt": attempt, "steps": steps, "die_before": die_before}
        self._nursery.stdin.write(json.dumps(command) + "\n")
        self._nursery.stdin.flush()
        while not self.pid:
            self._listen()

    def kill_after(self, commits: int, seconds: float) -> None:
        target = self.committed + commits
        while self.committed < target:
            self._listen()
        time.sleep(seconds)  # a random moment, not a wait for anything
        os.kill(self.pid, signal.SIGKILL)
        self.finish()

    def finish(self) -> None:
        while self.status is None:
            self._listen()

    def close(self) -> None:
        if self.pid and self.status is None:
            os.kill(self.pid, signal.SIGKILL)
        self._nursery.communicate(timeout=60)

    def _listen(self) -> None:
        assert self._nursery.stdout
        what, value = self._nursery.stdout.readline().split()
        if what == "started":
            self.pid = int(value)
        elif what == "committed":
            self.committed = int(value)
        else:
            self.status = int(value)


@pytest.fixture
def writers() -> Iterator[Writers]:
    writers = Writers()
    yield writers
    writers.close()


def check(directory: Path, committed: int) -> int:
    """Every commit is right to the last byte, and none that was announced is missing. Gives the newest step."""
    store = CheckpointStore(directory)
    found = store.scan()
    assert found.unreadable == ()
    for record in found.records:
        assert store.verify(record) == []
        for name in WRITER["FILES"]:
            assert store.path(record, name).read_bytes() == WRITER["content"](record.step, record.attempt, name)
    newest = found.records[0].step if found.records else 0
    assert newest in (committed, committed + 1), "committed + 1: killed between the commit and its announcement"
    assert len(found.records) >= min(2, newest), "the one before the newest stays"
    return newest


@pytest.mark.timeout(60 + 5 * KILLS)
def test_kills_at_random_moments(writers: Writers, tmp_path: Path) -> None:
    chance = random.Random(20)
    for number in range(KILLS):
        writers.start(tmp_path, f"attempt-{number}", steps=1_000_000)
        writers.kill_after(commits=chance.choice((0, 0, 1, 2)), seconds=chance.uniform(0, 0.03))
        assert writers.status == -signal.SIGKILL
        writers.committed = check(tmp_path, writers.committed)
    assert writers.committed > KILLS // 4
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith("step-")]
    assert len(left) < 3 + 2, f"leftovers pile up: {left}"


@pytest.mark.slow
def test_a_kill_before_every_change_to_the_volume(writers: Writers, tmp_path: Path) -> None:
    """Three steps from begin to retention, cut off before each mkdir, open, fsync, rename and unlink in turn; then resumed."""
    for point in range(10_000):
        directory = tmp_path / str(point)
        writers.committed = 0
        writers.start(directory, "first", steps=3, die_before=point)
        writers.finish()
        if writers.status == 0:
            break
        assert writers.status == -signal.SIGKILL
        newest = check(directory, writers.committed)
        if point % 7 == 0:
            writers.start(directory, "second", steps=3)
            writers.finish()
            assert (writers.status, check(directory, writers.committed)) == (0, newest + 3)
            assert sorted(path.name for path in directory.iterdir())[1:] == [f"step-{newest + n}.second" for n in (2, 3)]
    assert point > 80
