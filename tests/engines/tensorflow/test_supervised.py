"""A TensorFlow run as its pods run it: supervisors that know each other by ``TF_CONFIG`` alone, and are not linked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.engines.pods import Pods, address
from tests.engines.tensorflow.conftest import Spec
from tests.processes import wait_until

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.commands.local import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    running = Pods(tmp_path)
    yield running
    running.close()


def environments() -> list[Mapping[str, str]]:
    """As the TFJob's controller writes them for a chief and a worker."""
    cluster = {"chief": [f"{address(0)}:{free_port()}"], "worker": [f"{address(1)}:{free_port()}"]}
    tasks = [{"type": "chief", "index": 0}, {"type": "worker", "index": 0}]
    return [{"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})} for task in tasks]


def test_one_pod_that_is_told_to_end_saves_for_all(pods: Pods, spec: Spec, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    document = spec(directory, duration={"steps": 400}, checkpoints={"directory": str(directory), "every_steps": 10})
    document["http_port"] = free_port()
    running = pods.start(document, environments())
    wait_until(lambda: bool(CheckpointStore(directory).records()), "a commit")
    running[1].tell_to_end()
    assert [pod.code() for pod in running] == [210, 210], running[0].text
    committed = CheckpointStore(directory).records()[0].step
    assert running[0].message().committed_step == committed
    document["work"]["duration"] = {"steps": committed + 5}
    running = pods.start(document, environments())
    assert [pod.code() for pod in running] == [0, 0], running[0].text
    assert [event["step"] for event in running[0].events("restored")] == [committed]
    assert CheckpointStore(directory).records()[0].step == committed + 5
    message = running[0].message()
    assert message.attempts == 2
    assert message.goodput is not None
    assert 0 < message.goodput < 1
