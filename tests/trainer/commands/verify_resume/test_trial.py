"""The kill of a trial, on real pods whose ranks say what a rank says and need no torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.trainer.contract.specifications import changed

from trainwright_trainer.commands.local import LocalPod, PodFailedError, free_port, local_run
from trainwright_trainer.commands.verify_resume.trial import Moment, Trial, draw_moments
from trainwright_trainer.contract import RunSpec, Training
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.spec_file import read_specification

STEP = '{"event": "step", "step": %d, "loss": 1.0, "ts": "2026-01-01T00:00:0%d+00:00"}'
SAID = "\n".join([STEP % (3, 0), STEP % (4, 1), '{"event": "checkpoint_committed"}'])
"""The second step took a second, and a commit is there."""


class Spoken(Trial):
    """A trial whose pods run a program. Counts its starts."""

    def __init__(self, folder: Path, program: str) -> None:
        (folder / "run.json").write_text(json.dumps(changed({})))
        read = read_specification(folder / "run.json")
        assert isinstance(read.spec.work, Training)
        super().__init__(read, read.spec.work, folder, 12, 4)
        self._program, self.starts = program, 0

    def _pod(self, name: str, processes: int, checkpoints: Path) -> tuple[LocalPod, Path]:
        self.starts += 1
        folder = self._folder / name
        folder.mkdir()
        command = [sys.executable, "-c", f"import sys, time; print({SAID!r}, flush=True); {self._program}"]
        spec = RunSpec.model_validate(changed({
            "work": {"kind": "script", "command": command, "protocol": True}, "http_port": free_port(),
        }))
        return LocalPod(local_run(spec, folder / "given.json", folder, processes), folder), folder


def test_a_run_that_fails_before_the_kill_says_why(tmp_path: Path) -> None:
    trial = Spoken(tmp_path, "time.sleep(0.2); sys.exit(14)")
    with pytest.raises(PodFailedError) as failed:
        trial.killed(1, [Moment(4, 1.0)])
    assert failed.value.exit_code is ExitCode.DIVERGED
    assert trial.starts == 1


def test_a_step_that_is_missed_twice_more_is_refused(tmp_path: Path) -> None:
    trial = Spoken(tmp_path, "pass")
    with pytest.raises(InvalidRunError, match=r"killed after step 9 and a commit; raise --steps, or let --kill-at be earlier$"):
        trial.killed(1, draw_moments(0, 4, 12, 9))
    assert trial.starts == 3


def test_a_run_that_is_too_quick_for_any_kill_is_refused(tmp_path: Path) -> None:
    trial = Spoken(tmp_path, "time.sleep(0.2)")
    with pytest.raises(InvalidRunError, match=r"killed after step 4 and a commit; raise --steps$"):
        trial.killed(1, [Moment(4, 1.0)])
