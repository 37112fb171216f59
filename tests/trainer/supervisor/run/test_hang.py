"""A rank that makes no progress ends the run with 204, and the message names the one that the others wait for."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.supervisor.conftest import NewRun, training_work
from tests.trainer.supervisor.pods import Run

from trainwright_trainer.contract import ExitCode
from trainwright_trainer.observe import flight_recorder

SHORT: dict[str, Any] = {"watchdog": {"training_seconds": 2, "starting_seconds": 20, "restoring_seconds": 2}}


def message_of(run: Run, index: int = 0) -> str:
    cause = run.pods[index].message().cause
    assert cause is not None
    return cause.message


def stacks(run: Run) -> dict[str, str]:
    [directory] = (run.directory / "state").glob("hang-*")
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_a_rank_that_sleeps_in_a_step(new_run: NewRun) -> None:
    run = new_run(nodes=2, processes=2, **SHORT)
    run.plans = {"*": "finish:100000", "2": "hang:5"}
    began = time.monotonic()
    run.start_all()
    assert run.wait() == [ExitCode.HANG] * 2, run.logs()
    assert time.monotonic() - began < 60
    for index in range(2):
        message = message_of(run, index)
        assert "rank 2 has been training for" in message
        assert "held up by rank 2 of node 1 (training" in message
        assert "at fake_rank.py:" in message
        assert "in train" in message
        assert f"stacks are in {run.directory}/state/hang-" in message
        assert run.pods[index].message().cause.rank == 2  # type: ignore[union-attr]
    found = stacks(run)
    assert sorted(found) == ["rank-0.txt", "rank-1.txt", "rank-2.txt", "rank-3.txt"]
    assert "process: sleeping" in found["rank-2.txt"]
    assert "fake_rank.py" in found["rank-2.txt"]
    assert "in _listen" in found["rank-0.txt"]  # every thread


def test_a_stopped_rank(new_run: NewRun, tmp_path: Path) -> None:
    """Nobody asks its NCCL, which cannot answer."""
    run = new_run(nodes=2, **SHORT)
    run.plans, run.environment = {"*": "finish:100000"}, {"TMPDIR": str(tmp_path)}
    leader, _ = run.start_all()
    pids = run.wait_for_training()
    stem = flight_recorder.environment(leader.wait_for_event("ranks_started")["attempt"])["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"]
    pipe = tmp_path / f"{Path(stem).name}0.pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.kill(pids[0], signal.SIGSTOP)
    assert run.wait() == [ExitCode.HANG] * 2, run.logs()
    assert "held up by rank 0 of node 0 (training" in message_of(run, 1)
    assert "its process is stopped" in message_of(run, 1)
    assert "process: stopped" in stacks(run)["rank-0.txt"]
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_rank_that_never_gets_through_its_restore(new_run: NewRun) -> None:
    run = new_run(nodes=1, processes=2, **SHORT)
    run.plans = {"0": "finish:100000", "1": "starting"}
    run.start_all()
    assert run.wait() == [ExitCode.HANG], run.logs()
    assert "rank 1 has been restoring for" in message_of(run)
    assert "2 s is the limit" in message_of(run)


@pytest.mark.slow
def test_without_a_volume_the_stacks_are_in_the_log(new_run: NewRun, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    run = new_run(nodes=1, work=training_work(tmp_path / "state"), **SHORT)
    run.plans = {"*": "hang:500"}
    [pod] = run.start_all()
    run.wait_for_training()
    (tmp_path / "state").rename(tmp_path / "away")
    (tmp_path / "state").touch()  # no directory any more
    assert run.wait() == [ExitCode.HANG], run.logs()
    assert "stacks are in the logs of the pods" in message_of(run)
    event = pod.heard("stacks")
    assert event is not None
    assert "fake_rank.py" in event["text"]


def test_a_slow_script_is_left_alone(new_run: NewRun, tmp_path: Path) -> None:
    run = new_run(nodes=1, work={"kind": "script", "command": ["sleep", "4"]}, watchdog={"starting_seconds": 1})
    run.start_all()
    assert run.wait() == [0], run.logs()


@pytest.mark.slow
def test_a_pod_that_cannot_answer_is_named(new_run: NewRun) -> None:
    run = new_run(nodes=2, peer_lost_seconds=60, **SHORT)
    run.plans = {"*": "finish:100000", "0": "hang:500"}
    run.start_all()
    run.wait_for_training()
    run.pods[1].process.send_signal(signal.SIGSTOP)
    assert run.pods[0].wait() == ExitCode.HANG, run.logs()
    assert "node 1 (" in message_of(run)
    assert ") did not answer" in message_of(run)
