"""A boosting run as its pods run it: supervisors that start the workers, and are linked with each other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.engines.pods import Pod, Pods, address
from tests.engines.xgboost.conftest import Spec
from tests.processes import wait_until

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.commands.local import free_port

pytestmark = pytest.mark.slow
PODS: list[Mapping[str, str]] = [{"RANK": "0", "WORLD_SIZE": "2"}, {"RANK": "1", "WORLD_SIZE": "2"}]
"""What the XGBoostJob's controller gives, of which only the number counts."""
LONG = 3000
"""Rounds that leave time to interrupt, about 12 s of it on an idle machine. No test waits for the last of them."""


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    running = Pods(tmp_path)
    yield running
    running.close()


def document(spec: Spec, directory: Path, rounds: int = LONG) -> dict[str, Any]:
    built = spec(directory, rounds=rounds, checkpoints={"directory": str(directory), "every_steps": 20})
    built["world"] |= {
        "control_port": free_port(), "rendezvous": {"kind": "dmlc-tracker", "host": address(0), "port": free_port()},
    }
    return {**built, "http_port": free_port()}


def steps(directory: Path) -> list[int]:
    return [record.step for record in CheckpointStore(directory).records()]


def test_pods_that_are_told_to_end_and_killed(pods: Pods, spec: Spec, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    running = pods.start(document(spec, directory), PODS)
    wait_until(lambda: bool(steps(directory)), "a commit")
    running[1].tell_to_end()
    assert [pod.code() for pod in running] == [210, 210], running[0].text
    message = running[0].message()
    assert message.step == message.committed_step == steps(directory)[0]

    running = pods.start(document(spec, directory), PODS)
    before = steps(directory)[0]
    wait_until(lambda: steps(directory)[0] > before, "another commit")
    running[1].kill()
    assert running[0].code() == 202
    cause = running[0].message().cause
    assert cause is not None
    assert "node 1" in cause.message

    rounds = steps(directory)[0] + 40
    running = pods.start(document(spec, directory, rounds), PODS)
    assert [pod.code() for pod in running] == [0, 0], running[0].text
    assert len(running[0].events("restored")) == 1
    assert steps(directory)[0] == rounds
    assert (directory / "model.ubj").is_file()
    messages = [pod.message() for pod in running]
    assert [message.attempts for message in messages] == [3, 3]
    assert all(0 < (message.goodput or 0) < 1 for message in messages)


def commits_of(running: list[Pod], attempt: int) -> None:
    """Wait for the attempt with this number, and for a commit of it."""
    def told() -> str:
        return "\n".join(pod.text for pod in running)

    wait_until(lambda: len(running[0].events("run_started")) == attempt, f"attempt {attempt}", told=told)
    before = len(running[0].events("checkpoint_committed"))
    wait_until(lambda: len(running[0].events("checkpoint_committed")) > before, "a commit", told=told)


def test_attempts_in_the_same_pods(pods: Pods, spec: Spec, tmp_path: Path) -> None:
    """The rank with the tracker is killed, then a pod: each attempt meets at once, at the same place."""
    built = document(spec, tmp_path / "c")
    built["lifecycle"] |= {"recovery": {"restarts": 1, "wait_seconds": 900}}
    running = pods.start(built, PODS)
    commits_of(running, 1)
    os.kill(running[0].events("ranks_started")[-1]["pids"][0], signal.SIGKILL)
    commits_of(running, 2)
    running[1].kill()
    running[1] = pods.replace(running[1], 1, PODS[1])
    commits_of(running, 3)
    restored = [event["step"] for event in running[0].events("restored")]
    assert restored == sorted(restored)
    assert len(restored) == 2
    assert running[0].process.poll() is None
    running[0].tell_to_end()
    assert running[0].code() == 210, running[0].text
