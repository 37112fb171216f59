"""A pod finds its place in TF_CONFIG, and ranks of pods that nothing connects agree among themselves."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.processes import own_network, wait_until
from tests.trainer.supervisor.lone_pods import LoneRun

from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract import ExitCode, RunSpec
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.supervisor.place import ControlAddress, tasks, tf_place

RESNET = {
    "architecture": "resnet", "num_channels": 1, "hidden_sizes": [8], "depths": [1], "layer_type": "basic", "image_size": 8,
    "num_labels": 10,
}


def specification(directory: Path, nodes: int, ports: tuple[int, int] = (9400, 29400), **world: Any) -> RunSpec:
    return RunSpec.model_validate({
        "run": "fake", "identity": "fake-1a2b3c",
        "world": {"nodes": nodes, "processes_per_node": 1, "device": "cpu", "rendezvous": {"kind": "tf-config"}, **world},
        "lifecycle": {"grace_seconds": 30, "peer_wait_seconds": 30}, "http_port": ports[0],
        "work": {
            "kind": "trainer", "engine": "tensorflow", "task": "image-classification", "model": RESNET,
            "data": {"source": "digits"}, "batch": {"micro": 4}, "optimizer": {"kind": "adamw"}, "learning_rate": {"peak": 0.001},
            "duration": {"steps": 10}, "checkpoints": {"directory": str(directory / "state")},
        },
    })


def tf_config(kind: str, index: int, **cluster: Any) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"})}


TWO = ["run-worker-0.ns.svc:2222", "run-worker-1.ns.svc:2222"]
CHIEF = ["run-chief-0.ns.svc:2222"]


@pytest.mark.parametrize(("environ", "nodes", "node", "first"), [
    (tf_config("worker", 0, worker=TWO), 2, 0, "run-worker-0.ns.svc"),
    (tf_config("worker", 1, worker=TWO), 2, 1, "run-worker-0.ns.svc"),
    (tf_config("chief", 0, chief=CHIEF, worker=TWO), 3, 0, "run-chief-0.ns.svc"),
    (tf_config("worker", 1, chief=CHIEF, worker=TWO), 3, 2, "run-chief-0.ns.svc"),
    (tf_config("worker", 1, worker=TWO, ps=[], evaluator=[]), 2, 1, "run-worker-0.ns.svc"),
    ({}, 1, 0, "127.0.0.1"),
])
def test_places(tmp_path: Path, environ: dict[str, str], nodes: int, node: int, first: str) -> None:
    world = specification(tmp_path, nodes).world
    place = tf_place(environ, world)
    assert (place.node, place.control, place.pods) == (node, None, 1)
    assert tasks(environ, world).first[0] == first


def test_a_control_port_links_the_pods(tmp_path: Path) -> None:
    world = specification(tmp_path, 2, control_port=29400).world
    assert tf_place(tf_config("worker", 1, worker=TWO), world).control == ControlAddress("run-worker-0.ns.svc", 29400, 2)


@pytest.mark.parametrize(("environ", "sentence"), [
    ({}, "TF_CONFIG is not set in this pod and world.nodes is 2"),
    ({"TF_CONFIG": "{"}, "TF_CONFIG cannot be read (JSONDecodeError"),
    ({"TF_CONFIG": "[]"}, "TF_CONFIG cannot be read (TypeError"),
    ({"TF_CONFIG": '{"cluster": {}}'}, "TF_CONFIG cannot be read (KeyError: 'task')"),
    (tf_config("worker", 0, worker=TWO[:1]), "TF_CONFIG lists 1 tasks and world.nodes is 2"),
    (tf_config("worker", 0, worker=TWO, ps=["p:1"]), "lists ps, and MultiWorkerMirroredStrategy knows chief and worker alone"),
    (tf_config("evaluator", 0, worker=TWO, evaluator=["e:1"]), "TF_CONFIG lists evaluator"),
    (tf_config("worker", 2, worker=TWO), "says that this pod is worker 2, which is not in its own list"),
    (tf_config("worker", 1, worker={"1": "x:1"}), "remove enableDynamicWorker from the job"),
])
def test_refusals(tmp_path: Path, environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(PodError) as caught:
        tasks(environ, specification(tmp_path, 2).world)
    assert caught.value.exit_code is ExitCode.TOPOLOGY_MISMATCH
    assert sentence in str(caught.value)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LoneRun]:
    base = own_network()
    http = free_port()
    started = LoneRun(tmp_path, specification(tmp_path, 2, (http, 0)), base)
    yield started
    started.clean_up()


def start_both(run: LoneRun) -> None:
    port = free_port()
    addresses = [f"{run.address_base}{number + 1}:{port}" for number in range(2)]
    for number in range(2):
        run.start(number, tf_config("worker", number, worker=addresses))


@pytest.mark.slow
def test_ranks_know_who_they_are(run: LoneRun) -> None:
    run.steps = 5
    start_both(run)
    assert [pod.wait() for pod in run.pods] == [0, 0], run.logs()
    environments = {line["rank"]: line["environment"] for line in run.journal("started")}
    assert sorted(environments) == [0, 1]
    assert environments[1]["GROUP_RANK"] == "1"
    assert environments[1]["MASTER_ADDR"] == f"{run.address_base}1"
    assert json.loads(environments[1]["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}


@pytest.mark.slow
@pytest.mark.parametrize("told", [0, 1])
def test_all_ranks_stop_at_one_step_whichever_pod_is_told(run: LoneRun, told: int) -> None:
    start_both(run)
    wait_until(lambda: len(run.journal("started")) == 2, f"both ranks train:\n{run.logs()}")
    run.pods[told].process.send_signal(signal.SIGTERM)
    assert run.pods[told].wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    assert run.pods[1 - told].wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    assert len({line["step"] for line in run.journal("stop")}) == 1
    assert len(run.journal("stop")) == 2


@pytest.mark.slow
def test_the_ledger_is_worker_0s(run: LoneRun) -> None:
    run.steps = 5
    start_both(run)
    assert [pod.wait() for pod in run.pods] == [0, 0], run.logs()
    lines = [json.loads(line) for line in (run.directory / "state" / "attempts.jsonl").read_text().splitlines()]
    [attempt] = {line["attempt"] for line in lines}
    assert attempt == next(line["attempt"] for line in run.journal("started") if line["rank"] == 0)
    first, second = (pod.message() for pod in run.pods)
    assert (first.attempts, second.attempts, second.goodput) == (1, None, None)  # only worker 0 reads the ledger
    assert first.goodput is not None
