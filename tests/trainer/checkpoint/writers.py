"""Writers that tests kill, stop and let go on: one process of crash_writer.py, which forks them one after the other."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from trainwright_trainer.checkpoint import CheckpointStore, LeaseTiming

SCRIPT = Path(__file__).with_name("crash_writer.py")
SOURCE = runpy.run_path(str(SCRIPT))
LOST = SOURCE["LOST"]
FAST = LeaseTiming(beat_seconds=0.004, expiry_seconds=0.04, patience_seconds=10.0, poll_seconds=0.002)


class Writers:
    """Starts writers one after the other and follows what they say."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, str(SCRIPT), *arguments]
        self._nursery = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = 0
        self.term = 0
        """Of this writer's lease, once it has it."""
        self.commits: list[int] = []
        """Steps that this writer committed."""
        self.status: int | None = None

    @property
    def committed(self) -> int:
        return self.commits[-1] if self.commits else 0

    def start(
        self, directory: Path | str, attempt: str, *, steps: int, die_before: int | None = None, timing: LeaseTiming = FAST
    ) -> None:
        assert self._nursery.stdin
        self.pid, self.term, self.commits, self.status = 0, 0, [], None
        command = {
            "directory": str(directory), "attempt": attempt, "steps": steps, "die_before": die_before, "timing": asdict(timing),
        }
        self._nursery.stdin.write(json.dumps(command) + "\n")
        self._nursery.stdin.flush()
        while not self.pid:
            self._listen()

    def wait_for(self, commits: int, seconds: float) -> None:
        """Until it has the lease, committed so many steps, and a random moment later."""
        while self.status is None and (not self.term or len(self.commits) < commits):
            self._listen()
        assert self.status is None, f"the writer ended by itself with {self.status}"
        time.sleep(seconds)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.finish()

    def finish(self) -> None:
        while self.status is None:
            self._listen()

    def close(self) -> None:
        if self.pid and self.status is None:
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, signal.SIGKILL)
        self._nursery.communicate()

    def _listen(self) -> None:
        assert self._nursery.stdout
        what, value = self._nursery.stdout.readline().split()
        match what:
            case "started":
                self.pid = int(value)
            case "leased":
                self.term = int(value)
            case "committed":
                self.commits.append(int(value))
            case _:
                self.status = int(value)


def check(directory: Path | str) -> list[int]:
    """Steps that are committed, newest first, after every one was found right to the last byte."""
    store = CheckpointStore(directory)
    found = store.scan()
    assert found.unreadable == ()
    for record in found.records:
        assert store.verify(record) == []
        for name in SOURCE["FILES"]:
            assert store.path(record, name).read_bytes() == SOURCE["content"](record.step, record.attempt, name)
    store.close()
    return [record.step for record in found.records]
