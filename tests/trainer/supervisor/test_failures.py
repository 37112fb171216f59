"""Whatever ends one rank or one pod ends all of them within ten seconds, and the cause is named once."""

from __future__ import annotations

import os
import signal
import time

import pytest
from tests.processes import is_running, wait_until
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import Run, parent_of

from trainwright_trainer.contract import Cause, ExitCode

INCIDENT_SECONDS = 25.0
"""Ten on a machine that is not busy, and here less than the grace period: nothing waits for that to run out."""


def cause_of(run: Run, index: int) -> Cause:
    cause = run.pods[index].message().cause
    assert cause is not None
    return cause


def test_a_killed_rank_ends_every_pod(new_run: NewRun) -> None:
    run = new_run(nodes=3)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    pids = run.wait_for_training()
    incident = time.monotonic()
    os.kill(pids[1], signal.SIGKILL)
    assert run.wait() == [ExitCode.PEER_LOST, ExitCode.INTERNAL, ExitCode.PEER_LOST], run.logs()
    assert time.monotonic() - incident < INCIDENT_SECONDS
    assert "rank 1 was killed by SIGKILL, perhaps because the pod ran out of memory" in cause_of(run, 1).message
    assert cause_of(run, 2).message.startswith("node 1 (")
    assert "rank 1 was killed" in cause_of(run, 2).message
    assert cause_of(run, 2).rank == 1
    assert not any(is_running(pid) for pid in pids.values())


@pytest.mark.parametrize("node", [0, 1])
def test_a_killed_supervisor_ends_every_pod(new_run: NewRun, node: int) -> None:
    run = new_run(nodes=3, processes=2)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    pids = run.wait_for_training()
    incident = time.monotonic()
    run.pods[node].process.kill()
    codes = run.wait()
    assert codes.pop(node) == -signal.SIGKILL
    assert codes == [ExitCode.PEER_LOST] * 2, run.logs()
    assert time.monotonic() - incident < INCIDENT_SECONDS
    assert f"node {node} (" in cause_of(run, 2).message
    assert "is lost: its connection" in cause_of(run, 2).message
    wait_until(lambda: not any(is_running(pid) for pid in pids.values()), "all ranks are gone, the lost pod's too")


@pytest.mark.slow
@pytest.mark.parametrize("node", [0, 1])
def test_a_silent_supervisor_ends_every_pod(new_run: NewRun, node: int) -> None:
    run = new_run(nodes=3, peer_lost_seconds=5)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    run.wait_for_training()
    incident = time.monotonic()
    run.pods[node].process.send_signal(signal.SIGSTOP)
    others = [pod for pod in run.pods if pod.node != node]
    assert [pod.wait() for pod in others] == [ExitCode.PEER_LOST] * 2, run.logs()
    assert time.monotonic() - incident < INCIDENT_SECONDS
    cause = others[-1].message().cause
    assert cause is not None
    assert "silent for 5 s" in cause.message
    run.pods[node].process.send_signal(signal.SIGCONT)
    assert run.pods[node].wait() == ExitCode.PEER_LOST


@pytest.mark.slow
@pytest.mark.parametrize("node", [0, 1])
def test_a_pod_that_is_frozen_for_a_while_is_not_lost(new_run: NewRun, node: int) -> None:
    """By the limit that holds where a specification states none."""
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    run.wait_for_training()
    run.pods[node].process.send_signal(signal.SIGSTOP)
    time.sleep(10)
    run.pods[node].process.send_signal(signal.SIGCONT)
    run.pods[node].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_SAVED] * 2, run.logs()


def test_a_permanent_failure_keeps_its_code_and_its_words(new_run: NewRun) -> None:
    run = new_run(nodes=2, processes=2)
    run.plans = {"*": "finish:100000", "2": f"fail:{ExitCode.PEER_LOST}:5", "3": f"fail:{ExitCode.DIVERGED}:10"}
    run.start_all()
    assert run.wait() == [ExitCode.PEER_LOST, ExitCode.DIVERGED], run.logs()
    assert cause_of(run, 1) == Cause(rank=3, kind="Planned", message="rank 3 fails as planned")
    assert "ended with 14: rank 3 fails as planned" in cause_of(run, 0).message


def test_the_same_failure_everywhere_is_everybodys_own(new_run: NewRun) -> None:
    run = new_run(nodes=2, processes=2)
    run.plans = {"*": f"fail:{ExitCode.DIVERGED}:3"}
    run.start_all()
    assert run.wait() == [ExitCode.DIVERGED] * 2, run.logs()


def test_ranks_that_only_lost_a_peer_hear_which(new_run: NewRun) -> None:
    run = new_run(nodes=2, processes=2)
    run.plans = {"*": "finish:100000", "0": "fail:202:3", "1": "fail:202:3", "2": "fail:15:40"}
    run.start_all()
    assert run.wait() == [ExitCode.PEER_LOST, ExitCode.OUT_OF_MEMORY], run.logs()
    assert "ended with 15: rank 2 fails as planned" in cause_of(run, 0).message


def test_an_abort_may_be_the_echo_of_a_failure_elsewhere(new_run: NewRun) -> None:
    """NCCL's watchdog aborts a process whose peer is gone."""
    run = new_run(nodes=2)
    run.plans = {"0": "abort:3", "1": "fail:15:40"}
    run.start_all()
    assert run.wait() == [ExitCode.PEER_LOST, ExitCode.OUT_OF_MEMORY], run.logs()
    assert "ended with 15: rank 1 fails as planned" in cause_of(run, 0).message


@pytest.mark.slow
def test_an_abort_of_which_nobody_knows_more_is_an_internal_error(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"0": "finish:100000", "1": "abort:3"}
    run.start_all()
    assert run.wait() == [ExitCode.PEER_LOST, ExitCode.INTERNAL], run.logs()
    assert cause_of(run, 1).message == "rank 1 was killed by SIGABRT"


def test_the_real_failure_wins_over_a_lost_peer_in_the_same_pod(new_run: NewRun) -> None:
    run = new_run(nodes=1, processes=2)
    run.plans = {"0": "fail:202:1", "1": "fail:15:10"}
    run.start_all()
    assert run.wait() == [ExitCode.OUT_OF_MEMORY], run.logs()


def test_siblings_that_hang_are_killed_soon(new_run: NewRun) -> None:
    run = new_run(nodes=1, processes=3)
    run.plans = {"0": "starting", "1": "starting", "2": "fail:14:2"}
    run.start_all()
    wait_until(lambda: bool(run.journal("training")), "rank 2 comes to the tick that it fails in")
    incident = time.monotonic()
    assert run.wait() == [ExitCode.DIVERGED], run.logs()
    assert time.monotonic() - incident < INCIDENT_SECONDS


def test_a_rank_that_exits_without_a_word(new_run: NewRun) -> None:
    run = new_run(nodes=1, processes=1)
    run.plans = {"*": "exit:0:3"}
    run.start_all()
    assert run.wait() == [ExitCode.INTERNAL]
    assert cause_of(run, 0).message == "rank 0 exited with 0 and never said that it was done"


def test_orphans_are_adopted_and_leave_with_the_pod(new_run: NewRun) -> None:
    run = new_run(nodes=1, processes=1)
    run.plans = {"*": "leak:100000"}
    [pod] = run.start_all()
    run.wait_for_training()
    [line] = run.journal("orphans")
    in_group, in_own_session = line["pids"]
    for pid in line["pids"]:
        wait_until(lambda pid=pid: parent_of(pid) == pod.process.pid, "adopted")  # type: ignore[misc]
    os.kill(in_group, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{in_group}"), "a dead orphan is reaped while the run goes on")
    assert is_running(in_own_session)
    pod.process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_SAVED], run.logs()
    wait_until(lambda: not os.path.exists(f"/proc/{in_own_session}"), "nobody is left behind")
