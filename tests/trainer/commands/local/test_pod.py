"""A real pod as a child, with ranks that need no torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.processes import is_running
from tests.trainer.contract.specifications import changed

from trainwright_trainer.commands.local import LocalPod, PodFailedError, free_port, local_run
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.exit_codes import ExitCode

RANK = "import os, sys, time; os.write(1, f'here {os.environ[\"RANK\"]} {os.getpid()}\\n'.encode()); "
"""One write: lines of several ranks go to one file."""


def pod(folder: Path, program: str, **work: Any) -> LocalPod:
    command = [sys.executable, "-c", RANK + program]
    spec = RunSpec.model_validate(changed({
        "work": {"kind": "script", "command": command, **work}, "http_port": free_port(),
    }))
    return LocalPod(local_run(spec, folder / "given.json", folder, 3), folder)


def ranks_of(folder: Path) -> list[int]:
    """Process ids of the ranks that have said they are here."""
    return [int(line.split()[2]) for line in (folder / "pod.log").read_text().splitlines() if line.startswith("here")]


def test_all_ranks_are_killed(tmp_path: Path) -> None:
    with pod(tmp_path, "time.sleep(600)") as running:
        assert running.wait_until(lambda: len(ranks_of(tmp_path)) == 3)
        assert running.kill_ranks() == [0, 1, 2]
        assert running.wait() == ExitCode.USER_FAILURE
        assert len(running.heard("rank_ended")) == 3
    assert not any(map(is_running, ranks_of(tmp_path)))


def test_nothing_outlives_the_block(tmp_path: Path) -> None:
    with pod(tmp_path, "time.sleep(600)") as running:
        assert running.wait_until(lambda: len(ranks_of(tmp_path)) == 3)
    assert not any(map(is_running, ranks_of(tmp_path)))


def test_a_pod_that_ends_ends_the_wait(tmp_path: Path) -> None:
    with pod(tmp_path, "pass") as running:
        assert not running.wait_until(lambda: bool(running.heard("never")))
        running.succeed()
        assert running.heard("pod_ended")[0]["code"] == 0
        assert running.kill_ranks() == []


def test_a_failure_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failing = pod(tmp_path, "pass", state_directory=str(tmp_path / "file" / "state"))
    with failing, pytest.raises(PodFailedError) as failed:
        failing.succeed()
    assert failed.value.exit_code is ExitCode.STORAGE
    assert str(failed.value).startswith("the run ended with 203 (StorageUnavailable): ")
