"""A run of several supervisors, from the first join to the last exit code."""

from __future__ import annotations

import json
import signal

import pytest
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.run.test_history import commit

from trainwright_trainer.checkpoint import write_complete
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.layout import RANK_ENVIRONMENT
from trainwright_trainer.contract.metrics import METRICS


def test_all_ranks_finish(new_run: NewRun) -> None:
    run = new_run(nodes=3, processes=2)
    run.start_all()
    assert run.wait() == [0, 0, 0], run.logs()
    started = {line["rank"]: line for line in run.journal("started")}
    assert sorted(started) == [0, 1, 2, 3, 4, 5]
    assert set(started[3]["environment"]) == set(RANK_ENVIRONMENT)
    assert started[3]["environment"] == {
        "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "3",
        "MASTER_ADDR": run.spec.world.meeting.host, "MASTER_PORT": str(run.spec.world.meeting.port),
    }
    assert len({pod.message().attempt for pod in run.pods}) == 1
    message = run.pods[1].message()
    assert (message.reason, message.step, message.committed_step, message.node_index) == ("Completed", 30, 30, 1)


def test_a_rank_gets_a_clean_process(new_run: NewRun) -> None:
    run = new_run(nodes=1, processes=2)
    run.start_all()
    assert run.wait() == [0], run.logs()
    for line in run.journal("started"):
        assert line["descriptors"] == sorted([0, 1, 2, line["link"], line["stacks"]])
        assert line["session"] == line["pid"]


def test_the_ledger_tells_starts_and_ends(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.start_all()
    assert run.wait() == [0, 0]
    assert run.spec.state_directory is not None
    lines = [json.loads(line) for line in (run.directory / "state" / "attempts.jsonl").read_text().splitlines()]
    facts = [(line["event"], line.get("code"), line.get("committed_step")) for line in lines]
    assert facts == [("started", None, None), ("times", None, None), ("ended", 0, 30)]
    assert {line["attempt"] for line in lines} == {run.pods[0].message().attempt}


def test_probes_answer_before_the_rendezvous_and_metrics_during_the_run(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000"}
    leader = run.start(0)
    leader.wait_for_event("waiting_for_peers")
    assert [leader.get(path)[0] for path in ("/livez", "/readyz", "/metrics")] == [200, 200, 200]
    assert "trainwright_peers_connected 1.0" in leader.get("/metrics")[1]
    run.start(1)
    run.wait_for_training()
    text = leader.get("/metrics")[1]
    samples = {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if not line.startswith("#")}
    assert samples["trainwright_up"] == samples["trainwright_ranks_alive"] == 1
    assert samples["trainwright_peers_connected"] == 2
    assert samples["trainwright_loss"] == 1 / samples["trainwright_step"]
    assert all(f"# TYPE {name}" in text for name in METRICS)


def test_a_complete_run_ends_before_the_rendezvous(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    write_complete(run.directory / "state", run.spec.identity, 10, "before")
    run.start(1)
    assert run.wait() == [0]
    assert run.journal("started") == []


def test_the_marker_of_another_identity_does_not_count(new_run: NewRun) -> None:
    run = new_run(nodes=1)
    write_complete(run.directory / "state", "fake-older", 10, "before")
    run.start(0)
    assert run.wait() == [0]
    assert len(run.journal("started")) == 1


def test_no_progress_ends_the_run_for_good(new_run: NewRun) -> None:
    run = new_run(nodes=2, attempts_without_progress=2)
    run.plans = {"*": "fail:200:1"}
    commit(run.directory / "state", 40)
    codes = []
    for _ in range(3):
        run.pods.clear()
        run.start_all()
        codes.append(run.wait())
    assert set(codes[0]) | set(codes[1]) <= {ExitCode.INTERNAL, ExitCode.PEER_LOST}
    assert codes[2] == [ExitCode.NO_PROGRESS] * 2
    cause = run.pods[1].message().cause
    assert cause is not None
    assert "2 attempts in a row ended without one newer than step 40" in cause.message
    passed_over = {rank: [line["resume_before"] for line in run.journal("started") if line["rank"] == rank] for rank in (0, 1)}
    assert passed_over == {0: [None, "40"], 1: [None, "40"]}, "the last attempt begins before the newest commit"


def test_a_peer_that_comes_late_and_one_that_comes_again_before_the_start(new_run: NewRun) -> None:
    run = new_run(nodes=3)
    run.start(1).wait_for_event("waiting_for_node_0")
    leader = run.start(0)
    leader.wait_for_event("peer_joined")
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.pods[0].wait() == ExitCode.PREEMPTED_NOT_SAVED
    leader.wait_for_event("peer_left")
    run.start(1)
    run.start(2)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED, 0, 0, 0], run.logs()


def test_node_0_is_replaced_before_the_start(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    first = run.start(0)
    first.wait_for_event("waiting_for_peers")
    first.process.kill()
    first.wait()
    second = run.start(1)
    second.wait_for_event("waiting_for_node_0")
    run.pods.pop(0)
    run.start(0)
    assert run.wait() == [0, 0], run.logs()


@pytest.mark.slow
def test_peers_that_never_come(new_run: NewRun) -> None:
    run = new_run(nodes=4, peer_wait_seconds=15)
    run.start(0)
    run.start(2)
    assert run.wait() == [ExitCode.PEERS_NEVER_CAME] * 2, run.logs()
    for pod in run.pods:
        cause = pod.message().cause
        assert cause is not None
        assert "2 of 4 nodes did not join within 15 s: 1, 3" in cause.message


def test_node_0_never_comes(new_run: NewRun) -> None:
    run = new_run(nodes=2, peer_wait_seconds=1)
    run.start(1)
    assert run.wait() == [ExitCode.PEERS_NEVER_CAME]
    cause = run.pods[0].message().cause
    assert cause is not None
    assert "node 0 did not come within 1 s" in cause.message


def test_different_specifications_do_not_train_together(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.start(0)
    run.start(1, spec=run.spec.model_copy(update={"run": "other"}))
    assert run.wait() == [ExitCode.TOPOLOGY_MISMATCH] * 2, run.logs()
    for pod in run.pods:
        cause = pod.message().cause
        assert cause is not None
        assert "must mount the same ConfigMap" in cause.message
    assert run.journal("started") == []


def test_a_stranger_does_not_disturb_a_run(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000"}
    leader, _ = run.start_all()
    run.wait_for_training()
    stranger = run.start(1, spec=run.spec.model_copy(update={"run": "other"}))
    assert stranger.wait() == ExitCode.TOPOLOGY_MISMATCH
    leader.process.send_signal(signal.SIGTERM)
    assert run.wait()[:2] == [ExitCode.PREEMPTED_SAVED] * 2, run.logs()


def test_a_pod_that_comes_twice_ends_the_attempt(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    run.wait_for_training()
    run.start(1)
    assert run.wait() == [ExitCode.PEER_LOST] * 3, run.logs()
    cause = run.pods[0].message().cause
    assert cause is not None
    assert "joined again" in cause.message
