"""What a real SIGKILL of a rank costs under Horovod, with a real mpirun, sshd and supervisors."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from tests.engines.horovod.conftest import PROGRAM, NewRun
from tests.processes import wait_until
from tests.trainer.supervisor.pods import PodProcess
from tests.trainer.training.conformance import assert_same_bits, committed
from tests.trainer.training.test_kills import has_committed, is_saving

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.contract import ExitCode

LIMIT_SECONDS = 60.0
"""In which the launcher has ended the ranks that are left, and itself: 5 s on an idle machine."""
pytestmark = pytest.mark.slow


def pid_of(rank: int, directory: Path) -> int:
    """The process that trains as this rank, in this run."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((process / name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
        except OSError:
            continue
        ours = any(str(directory).encode() in variable for variable in environment)
        if ours and command[1:3] == [b"-m", PROGRAM.encode()] and f"RANK={rank}".encode() in environment:
            return int(process.name)
    raise AssertionError(f"no process is rank {rank}")


def writer(store: CheckpointStore) -> str:
    """The attempt that has the lease."""
    newest = max((store.directory / "lease").glob("*.json"), key=lambda path: int(path.stem))
    attempt: str = json.loads(newest.read_text())["attempt"]
    return attempt


def test_three_kills_lose_nothing_that_was_committed(new_run: NewRun, uninterrupted: Path, tmp_path: Path) -> None:
    run = new_run(1)
    store, dice = CheckpointStore(tmp_path / "lineage"), random.Random("kills of horovod")
    for number in range(2):
        run.start_worker(number)
    for victim, in_a_save in ((1, False), (0, True), (0, False)):
        safe = committed(store)
        launcher = run.start_launcher()
        wait_until(partial(has_committed, store, safe + dice.randrange(3, 9)), "commits")
        pid = pid_of(victim, tmp_path)
        if in_a_save:
            wait_until(partial(is_saving, store, writer(store)), "a save")
        else:
            time.sleep(dice.uniform(0, 0.03))
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        assert launcher.wait() == ExitCode.INTERNAL, run.logs()
        assert launcher.ended_at - killed < LIMIT_SECONDS
        cause = launcher.message().cause
        assert cause is not None
        assert f"rank {victim} was killed by SIGKILL" in cause.message
        assert_went_on_from(launcher, safe)
    safe = committed(store)
    launcher = run.start_launcher()
    assert launcher.wait() == ExitCode.DONE, run.logs()
    assert_went_on_from(launcher, safe)
    assert_same_bits(tmp_path / "lineage", uninterrupted)


def assert_went_on_from(launcher: PodProcess, step: int) -> None:
    # mpirun gives its ranks a terminal, so they log for people.
    restored = re.findall(r"rank 0  restored  step (\d+)", launcher.log_path.read_text())
    assert restored == ([str(step)] if step else [])
