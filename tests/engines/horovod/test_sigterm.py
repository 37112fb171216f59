"""SIGTERM under Horovod, with a real mpirun, sshd and supervisors: what was trained is saved, and the run goes on from there."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from tests.engines.horovod.conftest import NewRun
from tests.engines.horovod.test_kills import assert_went_on_from
from tests.processes import wait_until
from tests.trainer.training import slow_rank
from tests.trainer.training.conformance import EVERY, STEPS, assert_same_bits, newest
from tests.trainer.training.test_phases import LONG_ENOUGH

from trainwright_trainer.contract import ExitCode

pytestmark = pytest.mark.slow


def test_sigterm_to_the_launcher_saves_on_all_ranks_at_one_step(
    new_run: NewRun, uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second rank is late with its data when the launcher is told, so the ranks are not at the same place."""
    note, directory = tmp_path / "note", tmp_path / "lineage"
    monkeypatch.setenv("SLOW", f"data:1:{LONG_ENOUGH}")
    monkeypatch.setenv("SLOW_NOTE", str(note))
    run = new_run(EVERY)
    run.rank = (sys.executable, slow_rank.__file__)
    run.options += ["-x", "SLOW", "-x", "SLOW_NOTE"]
    run.start_all()
    launcher = run.launcher
    wait_until(lambda: note.exists() or launcher.process.poll() is not None, "the second rank waits for data")
    launcher.process.send_signal(signal.SIGTERM)
    assert launcher.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    message, record = launcher.message(), newest(directory)
    assert message.committed_step == message.step == record.step
    assert 0 < record.step < EVERY  # no step at which it would have saved anyway
    assert record.world_size == 2
    assert {"rng-0.safetensors", "rng-1.safetensors"} < {file.name for file in record.files}

    monkeypatch.setenv("SLOW", "data:nobody:0")
    again = run.start_launcher()
    assert again.wait() == ExitCode.DONE, run.logs()
    assert_went_on_from(again, record.step)
    assert newest(directory).step == STEPS
    assert_same_bits(directory, uninterrupted)
