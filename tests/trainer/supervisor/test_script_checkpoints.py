"""Checkpoints of scripts, by ``trainwright_trainer.run``."""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.processes import wait_until
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import Run

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.checkpoint.ledger import Ledger
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.ledger import AttemptEnded, AttemptStarted

SAVES = """
    import json, os, sys, time
    from trainwright_trainer import run
    folder, last = sys.argv[1], int(sys.argv[2])
    def say(**words):
        with open(f"{folder}/said-{run.world.rank}.jsonl", "a") as file:
            print(json.dumps(words), file=file)
    found = run.checkpoints.newest()
    total, start = 0, 0
    if found:
        total = json.loads((found.path / f"rank-{run.world.rank}.json").read_text())
        start = found.step
    say(began=start)
    for n in range(start + 1, last + 1):
        total += n * (run.world.rank + 1)
        time.sleep(0.01)
        run.step(n)
        stop = run.should_stop()
        if stop or n % 10 == 0:
            say(saves=n)
            (run.checkpoints.draft() / f"rank-{run.world.rank}.json").write_text(json.dumps(total))
            run.checkpoints.commit(n)
            say(committed=n)
        if stop:
            run.stopped()
    say(total=total)
"""
SAVES_UP_TO_A_FILE = SAVES.replace("int(sys.argv[2])", "int(open(sys.argv[2]).read())")
"""Where a test says when it is enough: a run with an end may come to it before the test has acted."""


def work(state: Path, source: str, *arguments: object, **checkpoints: Any) -> dict[str, Any]:
    command = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    return {"kind": "script", "command": command, "state_directory": str(state), "checkpoints": checkpoints}


def said(folder: Path, rank: int, key: str) -> list[int]:
    path = folder / f"said-{rank}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line[key] for line in lines if key in line]


def begin(run: Run, tmp_path: Path, ranks: int) -> None:
    """Start all pods, and wait for a commit of this attempt."""
    before = len(said(tmp_path, ranks - 1, "committed"))
    run.start_all()
    wait_until(lambda: len(said(tmp_path, ranks - 1, "committed")) > before, "a commit")


def again(run: Run) -> None:
    run.pods.clear()


def total_of(last: int, rank: int) -> int:
    return sum(range(last + 1)) * (rank + 1)


def test_stopped_killed_and_resumed_it_ends_as_if_nothing_had_happened(new_run: NewRun, tmp_path: Path) -> None:
    target = tmp_path / "last"
    target.write_text("1000000")
    run = new_run(nodes=2, processes=2, work=work(tmp_path / "state", SAVES_UP_TO_A_FILE, tmp_path, target))
    begin(run, tmp_path, 4)
    run.pods[1].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_SAVED] * 2, run.logs()
    [stopped] = {said(tmp_path, rank, "committed")[-1] for rank in range(4)}
    assert run.pods[0].message().committed_step == stopped
    again(run)
    begin(run, tmp_path, 4)
    for pod in run.pods:
        run.lose(pod)
    run.wait()
    assert {tuple(said(tmp_path, rank, "began")) for rank in range(4)} == {(0, stopped)}
    committed = max(step for rank in range(4) for step in said(tmp_path, rank, "committed"))
    last = committed // 10 * 10 + 50
    target.write_text(str(last))
    again(run)
    run.start_all()
    assert run.wait() == [ExitCode.DONE] * 2, run.logs()
    assert [said(tmp_path, rank, "total") for rank in range(4)] == [[total_of(last, rank)] for rank in range(4)]
    [third] = {said(tmp_path, rank, "began")[-1] for rank in range(4)}
    assert third in said(tmp_path, 0, "saves"), "a rank may be killed before it says that its last one was committed"
    assert third >= committed > stopped
    store = CheckpointStore(tmp_path / "state")
    assert store.records()[0].step == last
    assert len(store.records()) == 3, "older ones were removed"
    assert not store.verify(store.records()[0])
    assert [file.name for file in store.records()[0].files] == [f"rank-{rank}.json" for rank in range(4)]
    starts = [event.committed_step for event in Ledger(tmp_path / "state").events() if isinstance(event, AttemptStarted)]
    assert starts == [None, stopped, third]


def test_attempts_in_the_same_pods_keep_one_after_the_other(new_run: NewRun, tmp_path: Path) -> None:
    """A rank is killed, then a pod is told to end: each attempt takes the lease at once, and goes on with the last commit."""
    last = tmp_path / "last"
    last.write_text("1000000")
    state = tmp_path / "state"
    run = new_run(nodes=2, work=work(state, SAVES_UP_TO_A_FILE, tmp_path, last), recovery={"restarts": 3, "wait_seconds": 900})
    begin(run, tmp_path, ranks=2)
    [pid] = run.pods[1].wait_for_event("ranks_started")["pids"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(said(tmp_path, 0, "began")) == 2, "another attempt", told=run.logs)
    commits = len(said(tmp_path, 1, "committed"))
    wait_until(lambda: len(said(tmp_path, 1, "committed")) > commits, "a commit of it", told=run.logs)
    run.pods[1].process.send_signal(signal.SIGTERM)
    assert run.pods[1].wait() == ExitCode.PREEMPTED_SAVED, run.logs()
    stopped = said(tmp_path, 1, "committed")[-1]
    last.write_text(str(stopped + 15))
    new = run.start(1, reuse=True)
    assert [run.pods[0].wait(), new.wait()] == [ExitCode.DONE] * 2, run.logs()
    for rank in (0, 1):
        assert said(tmp_path, rank, "began")[0] == 0
        assert said(tmp_path, rank, "began")[1] in said(tmp_path, rank, "saves")
        assert said(tmp_path, rank, "began")[2] == stopped
        assert said(tmp_path, rank, "total") == [total_of(stopped + 15, rank)]
    ends = [event.code for event in Ledger(state).events() if isinstance(event, AttemptEnded)]
    assert len(ends) == 3
    assert ends[1:] == [ExitCode.PREEMPTED_SAVED, ExitCode.DONE]
    assert [path.name for path in (state / "lease").glob("*.json")] == ["3.json"]


def test_a_damaged_one_is_set_aside(new_run: NewRun, tmp_path: Path) -> None:
    state = tmp_path / "state"
    run = new_run(nodes=1, work=work(state, SAVES, tmp_path, 30))
    run.start_all()
    assert run.wait() == [ExitCode.DONE], run.logs()
    newest = CheckpointStore(state).records()[0]
    (state / str(newest.name) / "rank-0.json").write_text("999")
    (state / "COMPLETE").unlink()
    again(run)
    run.start_all()
    assert run.wait() == [ExitCode.DONE], run.logs()
    assert said(tmp_path, 0, "began") == [0, 20]
    assert said(tmp_path, 0, "total") == [total_of(30, 0)] * 2
    assert (state / f"{newest.name}.bad").is_dir()
    run.pods[0].wait_for_event("checkpoint_quarantined")


def test_what_was_trained_is_not_given_up(new_run: NewRun, tmp_path: Path) -> None:
    state = tmp_path / "state"
    run = new_run(nodes=2, work=work(state, SAVES, tmp_path, 10))
    run.start_all()
    assert run.wait() == [ExitCode.DONE] * 2, run.logs()
    for path in state.glob("step-*/rank-1.json"):
        path.unlink()
    (state / "COMPLETE").unlink()
    again(run)
    run.start_all()
    assert run.wait() == [ExitCode.NO_CHECKPOINT] * 2, run.logs()
    cause = run.pods[1].message().cause
    assert cause is not None
    assert "damaged and set aside" in cause.message


MISTAKES = {
    "run.checkpoints.commit(3)": "there is no draft to commit",
    "run.checkpoints.draft()": "call run.step() before",
    "run.checkpoints.draft(3); run.checkpoints.commit(4)": "the draft is of step 3, and commit says 4",
    "run.checkpoints.draft(3); run.checkpoints.commit(3)": "nothing was written to",
    "(run.checkpoints.draft(3) / 'a=b').write_text('x'); run.checkpoints.commit(3)": "'a=b' is not a checkpoint file name",
    "(run.checkpoints.draft(3) / 'a').write_text('x'); run.checkpoints.commit(3); run.checkpoints.draft(3)": "committed already",
}


def test_a_mistake_is_named(new_run: NewRun, tmp_path: Path) -> None:
    source = """
        import sys
        from trainwright_trainer import run
        for mistake in sys.argv[1:]:
            try:
                exec(mistake)
            except run.CheckpointError as error:
                print("told:", error, flush=True)
    """
    run = new_run(nodes=1, work=work(tmp_path / "state", source, *MISTAKES))
    run.start_all()
    assert run.wait() == [ExitCode.DONE], run.logs()
    told = [line for line in run.pods[0].log_path.read_text().splitlines() if line.startswith("told: ")]
    for line, words in zip(told, MISTAKES.values(), strict=True):
        assert words in line


def test_ranks_that_want_different_things_hear_it(new_run: NewRun, tmp_path: Path) -> None:
    source = "from trainwright_trainer import run\nrun.checkpoints.draft(3 + run.world.rank)"
    run = new_run(nodes=2, processes=1, work=work(tmp_path / "state", source))
    run.start_all()
    codes = run.wait()
    assert ExitCode.USER_FAILURE in codes, run.logs()
    assert "they differ: draft of step 3; draft of step 4" in run.logs()


@pytest.mark.parametrize(("nodes", "processes", "who"), [(1, 2, "rank 1"), (2, 1, "node 1 (")])
def test_a_rank_that_ends_while_others_wait_for_it(
    new_run: NewRun, tmp_path: Path, nodes: int, processes: int, who: str
) -> None:
    source = """
        from trainwright_trainer import run
        draft = run.checkpoints.draft(3)
        if run.world.rank == 0:
            (draft / "file").write_text("x")
            run.checkpoints.commit(3)
    """
    run = new_run(nodes, processes, work=work(tmp_path / "state", source))
    run.start_all()
    assert run.wait()[0] == ExitCode.USER_FAILURE, run.logs()
    assert f"they differ: {who}" in run.logs()
    assert "has ended, and others" in run.logs()
    assert CheckpointStore(tmp_path / "state").records() == ()


def test_a_run_that_does_not_say_so_has_no_checkpoints(new_run: NewRun, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from trainwright_trainer import run; run.checkpoints.newest()"]
    run = new_run(nodes=1, work={"kind": "script", "command": command, "state_directory": str(tmp_path)})
    run.start_all()
    assert run.wait() == [ExitCode.USER_FAILURE]
    assert "write checkpoints: {by: script}" in run.logs()


def test_without_a_supervisor_it_is_the_same(tmp_path: Path) -> None:
    """On a laptop, in a folder called checkpoints."""
    import subprocess

    command = [sys.executable, "-c", textwrap.dedent(SAVES), str(tmp_path)]
    for last in (25, 40):
        subprocess.run([*command, str(last)], cwd=tmp_path, check=True, env=dict(os.environ))
    assert said(tmp_path, 0, "began") == [0, 20]
    assert said(tmp_path, 0, "total") == [total_of(25, 0), total_of(40, 0)]
    assert [record.step for record in CheckpointStore(tmp_path / "checkpoints").records()] == [40, 30, 20]
