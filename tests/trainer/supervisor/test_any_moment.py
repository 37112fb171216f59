"""A signal may come at any moment of a pod's life: the run ends, everybody says why, and no process stays behind."""

from __future__ import annotations

import signal
import time

import pytest
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import logs

from trainwright_trainer.contract import ExitCode

MOMENTS = [round(0.1 * step, 1) for step in range(1, 14)]
"""Seconds after the start, from the import of the supervisor to the first ticks of training."""


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm(new_run: NewRun, moment: float) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "finish:100000"}
    leader, other = run.start_all()
    time.sleep(moment)
    other.process.send_signal(signal.SIGTERM)
    if other.wait() in (ExitCode.PREEMPTED_NOT_SAVED, -signal.SIGTERM) and not leader.heard("started"):
        leader.process.send_signal(signal.SIGTERM)  # it waits for another node 1 then, and nothing else will end it soon
    assert run.wait() in (
        [ExitCode.PREEMPTED_SAVED] * 2,
        [ExitCode.PREEMPTED_NOT_SAVED] * 2,  # before the start too: each leaves for itself
        [ExitCode.PEER_LOST, ExitCode.PREEMPTED_NOT_SAVED],  # between its join and the start
        [ExitCode.PREEMPTED_NOT_SAVED, -signal.SIGTERM],  # while the interpreter itself started: as with any program
        [-signal.SIGTERM, -signal.SIGTERM],
    ), logs(run)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS[3::3])
def test_sigkill(new_run: NewRun, moment: float) -> None:
    run = new_run(nodes=2, peer_wait_seconds=2)
    run.plans = {"*": "finish:100000"}
    run.start_all()
    time.sleep(moment)
    run.pods[0].process.kill()
    assert run.wait()[1] in (ExitCode.PEERS_NEVER_CAME, ExitCode.PEER_LOST), logs(run)
