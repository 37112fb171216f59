"""A signal may come at any moment of a pod's life: the run ends, everybody says why, and no process stays behind."""

from __future__ import annotations

import itertools
import signal
import time

import pytest
from tests.processes import wait_until
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import PodProcess, Run, from_nothing

from trainwright_trainer.contract import ExitCode

STARTING_UP, MEETING, BEGINNING, TRAINING = "process_started", "supervisor_started", "started", "training"
"""What a moment is counted from: two are events of a supervisor, the second of the leader alone, and the last is of the ranks."""
MOMENTS = [
    *itertools.product([STARTING_UP], [0.0, 0.05, 0.1, 0.2, 0.4]),
    *itertools.product([MEETING], [0.0, 0.02, 0.05, 0.1]),
    *itertools.product([BEGINNING], [0.0, 0.05, 0.2, 0.4]),
    *itertools.product([TRAINING], [0.0, 0.1]),
]
"""And so many seconds later."""


def wait_for_moment(run: Run, pod: PodProcess, since: str, seconds: float) -> None:
    if since in (MEETING, BEGINNING):
        pod.wait_for_event(since)
    if since == TRAINING:
        wait_until(lambda: len(run.journal("training")) == run.spec.world.size, "all ranks train")
    time.sleep(seconds)


@pytest.mark.slow
@pytest.mark.parametrize(("since", "seconds"), MOMENTS)
def test_sigterm(new_run: NewRun, since: str, seconds: float) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000"}
    run.begin = from_nothing
    leader, other = run.start_all()
    wait_for_moment(run, leader if since == BEGINNING else other, since, seconds)
    other.process.send_signal(signal.SIGTERM)
    if other.wait() in (ExitCode.PREEMPTED_NOT_SAVED, -signal.SIGTERM) and not leader.heard("started"):
        leader.process.send_signal(signal.SIGTERM)  # it waits for another node 1 then, and nothing else will end it soon
    codes = run.wait()
    assert codes == [ExitCode.PREEMPTED_SAVED] * 2 or since != TRAINING, run.logs()
    assert codes in (
        [ExitCode.PREEMPTED_SAVED] * 2,
        [ExitCode.PREEMPTED_NOT_SAVED] * 2,  # before the start too: each leaves for itself
        [ExitCode.PEER_LOST, ExitCode.PREEMPTED_NOT_SAVED],  # between its join and the start
        [ExitCode.PREEMPTED_NOT_SAVED, -signal.SIGTERM],  # while the interpreter itself started: as with any program
        [-signal.SIGTERM, ExitCode.PREEMPTED_NOT_SAVED],  # the leader's may start more slowly
        [-signal.SIGTERM, -signal.SIGTERM],
    ), run.logs()


@pytest.mark.slow
@pytest.mark.parametrize(("since", "seconds", "patience"), [
    (STARTING_UP, 0.4, 2), (MEETING, 0.0, 2), (BEGINNING, 0.0, 15), (BEGINNING, 0.2, 15), (TRAINING, 0.0, 15),
])
def test_sigkill(new_run: NewRun, since: str, seconds: float, patience: float) -> None:
    run = new_run(nodes=2, peer_wait_seconds=patience)
    run.plans = {"*": "finish:100000"}
    run.begin = from_nothing
    leader, _ = run.start_all()
    wait_for_moment(run, leader, since, seconds)
    leader.process.kill()
    code = run.wait()[1]
    assert code == ExitCode.PEER_LOST or (code == ExitCode.PEERS_NEVER_CAME and since != TRAINING), run.logs()
