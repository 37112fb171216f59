"""Told to end: all ranks save at the same tick, or the run says that nothing could be saved."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from tests.processes import wait_until
from tests.trainer.supervisor.conftest import NewRun, training_work
from tests.trainer.supervisor.pods import Run

from trainwright_trainer.contract import ExitCode

SAVED, NOT_SAVED = ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED


def last_words(run: Run, index: int = 0) -> str:
    cause = run.pods[index].message().cause
    assert cause is not None
    return cause.message


@pytest.mark.parametrize(("node", "number"), [(0, signal.SIGTERM), (1, signal.SIGTERM), (2, signal.SIGINT)])
def test_one_pod_told_to_end_stops_all_at_the_same_tick(new_run: NewRun, node: int, number: signal.Signals) -> None:
    run = new_run(nodes=3, processes=2)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    run.wait_for_training()
    run.pods[node].process.send_signal(number)
    assert run.wait() == [SAVED] * 3, run.logs()
    stops = run.journal("stop")
    assert len(stops) == 6
    assert len({line["tick"] for line in stops}) == 1
    message = run.pods[1].message()
    assert message.committed_step == message.step == stops[0]["tick"] - 1
    assert all(last_words(run, other).startswith(f"node {node} (") for other in range(3))


def test_all_pods_told_to_end_at_once(new_run: NewRun) -> None:
    run = new_run(nodes=3)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    run.wait_for_training()
    for _ in range(3):
        for pod in run.pods:
            pod.process.send_signal(signal.SIGTERM)
    assert run.wait() == [SAVED] * 3, run.logs()
    assert len({line["tick"] for line in run.journal("stop")}) == 1


def test_a_rank_that_has_not_begun_leaves_nothing_to_save(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000", "1": "starting"}
    run.start_all()
    run.wait_for_ranks()
    run.pods[0].wait_for_a_step()
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [NOT_SAVED] * 2, run.logs()
    assert "rank 1 of node 1 is still" in last_words(run, 0)
    assert run.journal("stop") == []


@pytest.mark.slow
def test_a_rank_that_does_not_answer(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000", "1": "mute"}
    run.start_all()
    run.wait_for_ranks()
    run.pods[0].wait_for_a_step()  # a rank that still starts has nothing to save, whatever the others answer
    told = time.monotonic()
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [NOT_SAVED] * 2, run.logs()
    assert time.monotonic() - told < 15
    assert "the ranks of node 1 did not answer within 5 s" in last_words(run, 1)


def test_ranks_that_do_not_stop_in_time_are_killed(new_run: NewRun) -> None:
    run = new_run(nodes=2, grace_seconds=8)
    run.plans = {"*": "finish:100000", "1": "stuck"}
    run.start_all()
    run.wait_for_training()
    told = time.monotonic()
    run.pods[1].process.send_signal(signal.SIGTERM)
    codes = run.wait()
    assert codes[1] == NOT_SAVED, run.logs()
    assert codes[0] == SAVED
    assert time.monotonic() - told < 20
    assert "within the grace period of 8 s" in last_words(run, 1)


def test_a_pod_that_waits_for_its_peers_ends_at_once(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    pod = run.start(0)
    pod.wait_for_event("waiting_for_peers")
    pod.process.send_signal(signal.SIGTERM)
    assert run.wait() == [NOT_SAVED]
    assert last_words(run).endswith("was told to end by SIGTERM")


def test_a_rank_past_its_last_tick_holds_nobody_up(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"0": "finish:1", "1": "finish:100000"}
    run.start_all()
    run.wait_for_training()
    run.pods[0].wait_for_event("rank_ended")
    run.pods[0].process.send_signal(signal.SIGTERM)
    # No marker says that the run is complete, so pod 0 must come back with the other.
    assert run.wait() == [NOT_SAVED, SAVED], run.logs()


def test_periodic_saves_happen_at_the_same_tick(new_run: NewRun, tmp_path: Path) -> None:
    run = new_run(nodes=2, processes=2, work=training_work(tmp_path / "state", every_seconds=0.5))
    run.plans = {"*": "finish:100000"}
    run.start_all()
    wait_until(lambda: len({line["tick"] for line in run.journal("save")}) >= 3, "three saves")
    run.pods[1].process.send_signal(signal.SIGTERM)
    assert run.wait() == [SAVED] * 2, run.logs()
    ticks: dict[int, int] = {}
    for line in run.journal("save"):
        ticks[line["tick"]] = ticks.get(line["tick"], 0) + 1
    assert set(ticks.values()) == {4}


def test_a_save_that_cannot_be_agreed_lets_the_ranks_go_on(new_run: NewRun, tmp_path: Path) -> None:
    run = new_run(nodes=2, work=training_work(tmp_path / "state", every_seconds=0.3))
    run.plans = {"0": "finish:100000", "1": "starting"}
    run.start_all()
    run.pods[0].wait_for_event("not_agreed")
    run.wait_for_ranks()

    def step() -> float:
        lines = [line for line in run.pods[0].get("/metrics")[1].splitlines() if line.startswith("trainwright_step ")]
        return float(lines[0].split()[1]) if lines else -1.0

    wait_until(lambda: step() >= 0, "rank 0 trains")
    before = step()
    wait_until(lambda: step() > before + 5, "rank 0 is not held")
    assert run.journal("save") == []
