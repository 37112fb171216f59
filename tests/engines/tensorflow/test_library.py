"""TensorFlow itself, as it is installed: its strategies over a few processes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.engines.processes import Processes
from tests.processes import wait_until

from trainwright_trainer.commands.local import free_ports

FOLDER = Path(__file__).parent
Start = Callable[..., None]


@pytest.fixture
def run_workers(processes: Processes) -> Start:
    """Runs two workers of one cluster to their end."""

    def run(script: str, *arguments: Path, **environment: str) -> None:
        workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
        for index in range(2):
            place = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})
            processes.start([sys.executable, FOLDER / script, *arguments], {"TF_CONFIG": place, **environment})
        processes.wait()

    return run


def test_two_workers_train_one_model_in_a_loop_of_their_own(run_workers: Start, processes: Processes, tmp_path: Path) -> None:
    run_workers("worker.py", tmp_path / "checkpoint")
    first, second = map(processes.said, range(2))
    assert (first["index"], second["index"]) == (0, 1)
    assert first["replicas"] == second["replicas"] == 2
    assert first["losses"] == second["losses"]
    assert first["weights"] == second["weights"]
    assert first["losses"][-1] < first["losses"][0] / 2
    assert first["restored"] == first["weights"]
    assert second["restored"] == second["weights"]


@pytest.mark.nightly
def test_fit_of_the_legacy_keras_runs(run_workers: Start, processes: Processes) -> None:
    run_workers("fit.py", TF_USE_LEGACY_KERAS="1")
    first, second = map(processes.said, range(2))
    assert first == second
    assert first[-1] < first[0]


@pytest.mark.nightly
def test_fit_of_keras_3_does_not(run_workers: Start) -> None:
    """TW429 warns of it. Once this fails, the warning is out of date."""
    with pytest.raises(AssertionError, match="PerReplica"):
        run_workers("fit.py")


@pytest.mark.nightly
@pytest.mark.parametrize("listed", [False, True])
def test_a_coordinator_waits_for_an_evaluator_that_is_listed(processes: Processes, listed: bool) -> None:
    """TW331 warns of it. Once this fails, the warning is out of date."""
    roles = ["ps", "worker", "chief", *(["evaluator"] if listed else [])]
    cluster = {role: [f"127.0.0.1:{port}"] for role, port in zip(roles, free_ports(len(roles)), strict=True)}
    for role in ("ps", "worker", "chief"):
        place = json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})
        said = processes.start([sys.executable, FOLDER / "coordinator.py"], {"TF_CONFIG": place})
    wait_until(lambda: "connects" in said.read_text(), "the coordinator connects")
    if listed:
        time.sleep(10)
        assert "is connected" not in said.read_text()
    else:
        wait_until(lambda: "is connected" in said.read_text(), "the coordinator is connected")
