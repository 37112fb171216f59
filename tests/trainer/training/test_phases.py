"""Real ranks under a real supervisor: SIGTERM is answered, and a hang is found, whatever the ranks are in."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.processes import wait_until
from tests.trainer.supervisor.pods import Run, from_nothing
from tests.trainer.training.conftest import Ranks, Spec

from trainwright_trainer.checkpoint import CheckpointStore, read_complete
from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract import ExitCode, RunSpec, TerminationMessage
from trainwright_trainer.contract.layout import COMPLETE_MARKER

SLOW_RANK = Path(__file__).with_name("slow_rank.py")
BRIEFLY, LONG_ENOUGH, FOR_LONG = 1.0, 10.0, 60.0
"""Seconds at a place: ranks that can save are waited for, longer where the signal has to find them there; the others are not."""

Start = Callable[..., Run]


@pytest.fixture
def start(spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """One pod with two ranks, slow at a place; gives the run once the place is reached."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    runs: list[Run] = []

    def make(place: str, rank: str, seconds: float, lifecycle: dict[str, Any] | None = None, **work: Any) -> Run:
        described = spec(tmp_path / "state", **({"duration": {"steps": 100_000}} | work))
        described["lifecycle"] = {"grace_seconds": 60, "save_seconds": 5, **(lifecycle or {})}
        described["world"]["node_index_env"] = "NODE_INDEX"
        described["http_port"] = free_port()
        note = tmp_path / "note"
        run = Run(tmp_path, RunSpec.model_validate(described), "127.0.0.", begin=from_nothing)
        run.rank = (sys.executable, str(SLOW_RANK))
        run.environment = {"SLOW": f"{place}:{rank}:{seconds}", "SLOW_NOTE": str(note)}
        runs.append(run)
        pod = run.start(0)
        wait_until(lambda: note.exists() or pod.process.poll() is not None, f"ranks come to {place}")
        assert note.exists(), run.logs()
        return run

    yield make
    for run in runs:
        run.clean_up()


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "place"), [
    ("ddp", "evaluate"),
    ("fsdp2", "data"),
    *(pytest.param("ddp", place, marks=pytest.mark.nightly) for place in ("data", "step", "save")),
    pytest.param("fsdp2", "save", marks=pytest.mark.nightly),
])
def test_sigterm_saves_every_finished_step(start: Start, engine: str, place: str) -> None:
    """``test_object_store_run.py`` shows FSDP2 in a step."""
    evaluation = {"every_steps": 4, "max_batches": 2} if place == "evaluate" else {"max_batches": 2}
    run = start(place, "*", BRIEFLY, engine=engine, evaluation=evaluation)
    message = told_to_end(run, ExitCode.PREEMPTED_SAVED)
    [newest, *_] = CheckpointStore(run.spec.state_directory or "").records()
    assert message.committed_step == message.step == newest.step > 0


@pytest.mark.slow
def test_a_save_that_takes_longer_than_the_grace_period_costs_only_its_own_steps(start: Start) -> None:
    run = start("save", "*", FOR_LONG, {"grace_seconds": 10})
    message = told_to_end(run, ExitCode.PREEMPTED_NOT_SAVED)
    assert message.cause is not None
    assert "within the grace period of 10 s" in message.cause.message
    assert message.committed_step is None
    assert CheckpointStore(run.spec.state_directory or "").records() == ()


@pytest.mark.slow
def test_told_to_end_twice_is_told_once(start: Start) -> None:
    run = start("save", "*", BRIEFLY)
    run.pods[0].process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    message = told_to_end(run, ExitCode.PREEMPTED_SAVED)
    assert message.committed_step == message.step


@pytest.mark.slow
@pytest.mark.parametrize("place", ["start", pytest.param("preflight", marks=pytest.mark.nightly)])
def test_sigterm_before_there_is_anything_to_save(start: Start, place: str) -> None:
    run = start(place, "*", FOR_LONG, {"preflight": {"when": "always"}})
    message = told_to_end(run, ExitCode.PREEMPTED_NOT_SAVED)
    assert_still("starting", message)
    assert message.committed_step is None
    assert CheckpointStore(run.spec.state_directory or "").records() == ()


@pytest.mark.slow
def test_sigterm_while_restoring_costs_no_commit(start: Start, ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    """A run that went on to more steps than it was begun with. The shards of all ranks are being read."""
    directory = tmp_path / "state"
    ranks.finish(spec(directory, engine="fsdp2", duration={"steps": 4}))
    (directory / COMPLETE_MARKER).unlink()
    message = told_to_end(start("restore", "*", FOR_LONG, engine="fsdp2"), ExitCode.PREEMPTED_NOT_SAVED)
    assert_still("restoring", message)
    [record] = CheckpointStore(directory).records()
    assert message.committed_step == record.step == 4


@pytest.mark.slow
def test_sigterm_while_a_compiler_runs(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is faked here. The compiler's own processes end with the pod."""
    cache = tmp_path / "inductor"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    run = start("warm_up", "*", 0, compile=True)
    wait_until(lambda: any(name.endswith(".cpp") for _, _, names in os.walk(cache) for name in names), "something is compiled")
    assert processes_with(str(cache))
    assert_still("warming_up", told_to_end(run, ExitCode.PREEMPTED_NOT_SAVED))
    wait_until(lambda: not processes_with(str(cache)), "no process is left", 10)


def processes_with(text: str) -> list[str]:
    """Processes of this machine that were started with this in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if text.encode() in (process / "environ").read_bytes():
                found.append(process.name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("place", ["save", pytest.param("complete", marks=pytest.mark.nightly)])
def test_sigterm_after_the_last_step_comes_too_late(start: Start, place: str, tmp_path: Path) -> None:
    """The last checkpoint is on its way, or the mark after it: the run is done, and does not begin again."""
    directory = tmp_path / "state"
    run = start(place, "*", LONG_ENOUGH, duration={"steps": 6}, checkpoints={"directory": str(directory)})
    wait_until(lambda: run.pods[0].heard("evaluated") is not None, "the last boundary is passed")
    message = told_to_end(run, ExitCode.DONE)
    assert run.pods[0].heard("told_to_end")
    complete = read_complete(directory)
    assert complete is not None
    assert complete.step == message.committed_step == CheckpointStore(directory).records()[0].step == 6


def told_to_end(run: Run, code: ExitCode) -> TerminationMessage:
    """Send its pod SIGTERM, expect this code in time, and give what it says."""
    told = time.monotonic()
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [code], run.logs()
    assert time.monotonic() - told < 60
    return run.pods[0].message()


def assert_still(phase: str, message: TerminationMessage) -> None:
    assert message.cause is not None
    assert f"is still {phase}" in message.cause.message


@pytest.mark.slow
@pytest.mark.parametrize(("place", "where"), [
    ("step", "slow_rank.py"), pytest.param("data", "dataset.py", marks=pytest.mark.nightly),
])
def test_the_rank_that_does_not_come_to_the_collective_is_named(start: Start, place: str, where: str) -> None:
    run = start(place, "1", 600, {"watchdog": {"warming_up_seconds": 600, "training_seconds": 10}})
    assert run.wait() == [ExitCode.HANG], run.logs()
    cause = run.pods[0].message().cause
    assert cause is not None
    assert "held up by rank 1 of node 0 (training" in cause.message, cause.message
    assert f"at {where}:" in cause.message
    [directory] = Path(run.spec.state_directory or "").glob("hang-*")
    assert "wrapper" in (directory / "rank-1.txt").read_text()
    assert "all_reduce" in (directory / "rank-0.txt").read_text() or "backward" in (directory / "rank-0.txt").read_text()


@pytest.mark.slow
def test_the_ledger_says_what_the_time_went_into(start: Start) -> None:
    run = start("data", "1", 1, duration={"steps": 30})
    assert run.wait() == [0], run.logs()
    [times] = [line for line in ledger(run) if line["event"] == "times"]
    assert times["step"] == 30
    assert times["seconds"]["training"] > 1
    assert {"starting", "restoring", "training", "saving", "evaluating"} <= times["seconds"].keys()


def ledger(run: Run) -> list[dict[str, Any]]:
    path = Path(run.spec.state_directory or "") / "attempts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]
