"""Elastic runs over torch's own rendezvous: pods come and go, and the run goes on from the newest commit."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.processes import own_network, wait_until
from tests.trainer.supervisor.conftest import training_work
from tests.trainer.supervisor.lone_pods import LoneRun
from tests.trainer.supervisor.pods import PodProcess

from trainwright_trainer.commands.local import free_ports
from trainwright_trainer.contract import ExitCode, RunSpec

TRAINER = (sys.executable, "-m", "trainwright_trainer.rank")
pytestmark = pytest.mark.slow
NewElasticRun = Callable[..., LoneRun]


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[NewElasticRun]:
    runs: list[LoneRun] = []

    def make(least: int = 1, most: int = 2, **lifecycle: float) -> LoneRun:
        base = own_network()
        http, port = free_ports(2)
        spec = RunSpec.model_validate({
            "run": "fake", "identity": "fake-1a2b3c",
            "world": {
                "nodes": most, "processes_per_node": 1, "device": "cpu",
                "rendezvous": {
                    "kind": "c10d", "host": f"{base}1", "port": port, "min_nodes": least, "max_nodes": most,
                    "last_call_seconds": 8, "keep_alive_seconds": 1, "keep_alive_attempts": 3, "max_restarts": 1,
                },
            },
            "lifecycle": {"grace_seconds": 30, "peer_wait_seconds": 60, "attempts_without_progress": 50, **lifecycle},
            "http_port": http,
            "work": training_work(tmp_path / "state") | {"batch": {"micro": 4, "keep": "micro", "effective": 4 * most}},
        })
        runs.append(LoneRun(tmp_path, spec, base))
        return runs[-1]

    yield make
    for run in runs:
        run.clean_up()


def sizes(run: LoneRun) -> list[int]:
    """Of the rounds, in order."""
    found = dict[str, int]()
    for line in run.journal("started"):
        found[line["attempt"]] = line["size"]
    return list(found.values())


def test_two_pods_finish(new_run: NewElasticRun) -> None:
    run = new_run(least=2)
    run.steps = 20
    pods = [run.start(0), run.start(1)]
    assert [pod.wait() for pod in pods] == [0, 0], run.logs()
    assert sizes(run) == [2]
    assert {line["step"] for line in run.journal("ended")} == {20}


def test_a_pod_is_lost_and_comes_again(new_run: NewElasticRun) -> None:
    """The survivor goes on alone from the last commit; when the other is back, all ranks save before the new round."""
    run = new_run()
    first, second = run.start(0), run.start(1)
    run.wait_for_size(2)
    run.lose(second)
    run.wait_for_size(1)
    third = run.start(1)
    run.wait_for_size(2, rounds=2)
    assert sizes(run) == [2, 1, 2], run.logs()
    alone = next(line for line in run.journal("stop") if line["size"] == 1)
    again = [line["step"] for line in run.journal("started") if line["size"] == 2][-2:]
    assert again == [alone["step"]] * 2, "the new round goes on where the old one saved"
    said = "\n".join(pod.get("/metrics")[1] for pod in (first, third))
    counted = re.findall(r"^trainwright_attempt (\S+)$", said, re.MULTILINE)
    assert counted == ["3.0"], "by the pod that leads the round, and by no other"
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    assert third.wait() == ExitCode.PEER_LOST, run.logs()  # the store went with its host


def test_a_pod_that_falls_silent_is_lost_and_comes_again(new_run: NewElasticRun) -> None:
    """Its connections stay open, so no collective fails: the rendezvous is what notices, long before a watchdog would."""
    run = new_run()
    first, second = run.start(0), run.start(1)
    run.wait_for_size(2)
    run.signal_all(second, signal.SIGSTOP)
    run.wait_for_size(1)  # for half as long as a watchdog does
    assert [event["reason"] for event in first.log() if event["event"] == "peer_lost"] == [
        "1 node of this round fell silent: the others go on without them"
    ]
    assert [event["code"] for event in first.log() if event["event"] == "round_ended"] == [ExitCode.PEER_LOST]
    run.signal_all(second, signal.SIGCONT)
    run.wait_for_size(2, rounds=2)


def test_a_pod_that_is_told_to_end_saves_and_the_other_goes_on(new_run: NewElasticRun) -> None:
    run = new_run()
    _, second = run.start(0), run.start(1)
    run.wait_for_size(2)
    second.process.send_signal(signal.SIGTERM)
    assert second.wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    run.wait_for_size(1)
    stops = run.journal("stop")
    assert len(stops) == 2
    assert len({line["step"] for line in stops}) == 1, "both ranks saved at the same step"
    assert [line["step"] for line in run.journal("started") if line["size"] == 1] == [stops[0]["step"]]


def test_a_failure_is_tried_again_in_place(new_run: NewElasticRun) -> None:
    run = new_run(least=2)
    run.plans, run.steps = {"1": f"fail:{int(ExitCode.INTERNAL)}:5"}, 20
    pods = [run.start(0), run.start(1)]
    assert [pod.wait() for pod in pods] == [0, 0], run.logs()
    assert sizes(run) == [2, 2]


def test_a_permanent_failure_ends_its_pod(new_run: NewElasticRun) -> None:
    run = new_run(least=2, peer_wait_seconds=20)
    run.plans = {"1": f"fail:{int(ExitCode.DIVERGED)}:5"}
    pods = [run.start(0), run.start(1)]
    codes = sorted(pod.wait() for pod in pods)
    assert codes == [ExitCode.DIVERGED, ExitCode.PEERS_NEVER_CAME], run.logs()


def test_pods_that_never_come(new_run: NewElasticRun) -> None:
    run = new_run(least=2, peer_wait_seconds=4)
    pod = run.start(0)
    assert pod.wait() == ExitCode.PEERS_NEVER_CAME, run.logs()
    cause = pod.message().cause
    assert cause is not None
    assert "fewer than 2 nodes met" in cause.message


def test_told_to_end_while_it_waits(new_run: NewElasticRun) -> None:
    run = new_run(least=2)
    pod = run.start(0)
    pod.wait_for_event("waiting_for_peers")
    pod.process.send_signal(signal.SIGTERM)
    assert pod.wait() == ExitCode.PREEMPTED_NOT_SAVED, run.logs()


@pytest.mark.nightly
def test_torch_ranks_go_on_without_a_pod_that_is_lost(new_run: NewElasticRun) -> None:
    """The real program of a rank: the survivor trains on alone from the newest commit, at half the batch."""
    run = new_run(grace_seconds=60)
    work = run.spec.work.model_dump() | {
        "precision": "fp32", "duration": {"steps": 100_000}, "log_every_steps": 1,
        "checkpoints": {"directory": str(run.directory / "state"), "every_steps": 5},
    }
    run.spec = RunSpec.model_validate(run.spec.model_dump() | {"work": work})
    run.rank = TRAINER
    first, second = run.start(0), run.start(1)
    first.wait_for_event("supervisor_started")
    wait_until(lambda: committed(first) >= 5, f"a commit of two ranks:\n{run.logs()}")
    run.lose(second)
    rounds = [event for event in first.log() if event["event"] == "met"]
    assert [event["nodes"] for event in rounds] == [2]
    wait_until(lambda: [event["nodes"] for event in first.log() if event["event"] == "met"] == [2, 1], "a round of one")
    begun = committed(first)
    wait_until(lambda: committed(first) >= begun + 10, f"commits of one rank:\n{run.logs()}")
    started = [event for event in first.log() if event["event"] == "run_started"]
    assert [event["world_size"] for event in started] == [2, 1]
    assert started[1]["step"] >= 5
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == ExitCode.PREEMPTED_SAVED, run.logs()


def committed(pod: PodProcess) -> int:
    found = re.search(r"^trainwright_committed_step (\S+)$", pod.get("/metrics")[1], re.MULTILINE)
    return int(float(found[1])) if found else 0


def test_the_ledger_is_kept_by_the_pod_of_rank_0(new_run: NewElasticRun) -> None:
    run = new_run(least=2)
    run.steps = 10
    for number in (0, 1):
        run.start(number)
    for pod in run.pods:
        assert pod.wait() == 0, run.logs()
    ledger = [json.loads(line) for line in (run.directory / "state" / "attempts.jsonl").read_text().splitlines()]
    assert [line["event"] for line in ledger].count("started") == 1
    assert {line["attempt"] for line in ledger} == {run.journal("started")[0]["attempt"]}
