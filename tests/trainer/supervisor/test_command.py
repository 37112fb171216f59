"""A command under the supervisor: one process per pod, which starts the ranks itself."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.processes import wait_until
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import Run

from trainwright_trainer.checkpoint import read_complete
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.spec import Script

TRAP = 'trap "touch $PLACE/saved-$NODE_INDEX; exit 3" TERM; touch $PLACE/pod-$NODE_INDEX; while :; do sleep 0.05; done'
LAUNCHER = """
import os, subprocess, sys
start = ["bash", "-c", sys.argv[1]]
ranks = [subprocess.Popen(start, start_new_session=True, env={**os.environ, "LOCAL": str(n)}) for n in (0, 1)]
sys.exit(any(rank.wait() for rank in reversed(ranks)))
"""
"""Its ranks have sessions of their own, as torchrun's have, and it leaves them behind."""


def command(new_run: NewRun, *words: str, nodes: int = 2, state: Path | None = None, **options: Any) -> Run:
    work = {"kind": "command", "state_directory": None if state is None else str(state)}
    run = new_run(nodes, 2, work=work, **options)
    run.program = words
    return run


def cause(run: Run, index: int) -> str:
    said = run.pods[index].message().cause
    assert said is not None
    assert said.rank is None
    return said.message


def test_there_is_one_process_a_pod_with_the_pods_own_environment(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "as-the-pod-has-it")
    run = command(new_run, "env", nodes=1)
    run.start_all()
    assert run.wait() == [0], run.logs()
    seen = [line for line in run.pods[0].log_path.read_text().splitlines() if "=" in line and line[0].isupper()]
    names = [line.partition("=")[0] for line in seen]
    assert names.count("MASTER_ADDR") == 1
    assert "MASTER_ADDR=as-the-pod-has-it" in seen
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TRAINWRIGHT_SPEC", "TRAINWRIGHT_LINK_FD"} & {*names}


def test_a_failure_is_the_users_and_ends_all_pods(new_run: NewRun, tmp_path: Path) -> None:
    run = command(new_run, "bash", "-c", "[ $NODE_INDEX = 0 ] && sleep 1000; echo out of luck >&2; exit 3")
    run.start_all()
    assert run.wait() == [ExitCode.PEER_LOST, ExitCode.USER_FAILURE], run.logs()
    assert cause(run, 1) == "the command exited with 3; its last words: out of luck"


def test_sigterm_reaches_the_command_of_every_pod(
    new_run: NewRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", str(tmp_path))
    run = command(new_run, "bash", "-c", TRAP, state=tmp_path / "state")
    run.start_all()
    wait_until(lambda: len(list(tmp_path.glob("pod-?"))) == 2, "both commands run")
    run.pods[1].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED] * 2, run.logs()
    assert len(list(tmp_path.glob("saved-?"))) == 2
    assert cause(run, 0) == "the command exited with 3 after SIGTERM"
    assert read_complete(tmp_path / "state") is None


def test_a_command_that_fails_costs_no_pod(new_run: NewRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank of four fails in the first attempt, once all run. Those that are left are gone before the next one begins."""
    monkeypatch.setenv("PLACE", str(tmp_path))
    rank = (
        "me=$NODE_INDEX-$LOCAL; if [ -d $PLACE/failed ]; then "
        "for path in $PLACE/lives-*; do kill -0 ${path##*-} 2>/dev/null && echo is left; done; exit 0; fi; "
        "touch $PLACE/lives-$$; [ $me = 1-1 ] || exec sleep 1000; "
        "until [ $(ls $PLACE | grep -c lives) = 4 ]; do sleep 0.05; done; mkdir $PLACE/failed; exit 5"
    )
    run = command(
        new_run, sys.executable, "-c", LAUNCHER, rank, recovery={"restarts": 1, "wait_seconds": 60}, state=tmp_path / "state",
    )  # fmt: skip
    run.start_all()
    assert run.wait() == [0, 0], run.logs()
    assert run.pods[0].message().attempts == 2
    assert read_complete(tmp_path / "state") is not None
    assert "is left" not in run.logs(), "processes of the attempt before"


def test_launchers_that_meet_by_themselves_have_a_supervisor_each(new_run: NewRun, tmp_path: Path) -> None:
    """Elastic, and under mpirun: the pods have no numbers of ours, and nothing of torch is needed here."""
    elastic = {"kind": "c10d", "host": "nowhere", "port": 29500, "min_nodes": 1, "max_nodes": 2}
    mpi = {"kind": "mpi-hostfile", "role_env": "ROLE", "hostfile": "/nowhere"}
    for rendezvous in (elastic, mpi):
        run = command(new_run, "bash", "-c", "exit 3")
        world = run.spec.world.model_dump() | {"rendezvous": rendezvous, "control_port": None, "node_index_env": None}
        run.spec = run.spec.model_validate(run.spec.model_dump() | {"world": world})
        run.start(0)
        assert run.wait() == [ExitCode.USER_FAILURE], run.logs()
        assert cause(run, 0) == "the command exited with 3"


def test_the_pod_says_what_runs_and_a_script_its_specification(new_run: NewRun) -> None:
    run = command(new_run, nodes=1)
    run.start_all()
    assert run.wait() == [ExitCode.INVALID_SPEC]
    assert "supervise -- COMMAND" in cause(run, 0)
    missing = command(new_run, "no-such-program", nodes=1)
    missing.start_all()
    assert missing.wait() == [ExitCode.USER_FAILURE]
    assert "no such program" in cause(missing, 0)
    for wrong in ({"kind": "script"}, {"kind": "command", "command": ("true",)}, {"kind": "command", "config": {}}):
        with pytest.raises(ValidationError):
            Script.model_validate(wrong)
