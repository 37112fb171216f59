"""A script in an elastic run: no pod ends with 0 before the ranks of all have, since an operator takes the first for the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.processes import own_network, wait_until
from tests.trainer.supervisor.lone_pods import LoneRun

from trainwright_trainer.commands.local import free_ports
from trainwright_trainer.contract import ExitCode, RunSpec

pytestmark = pytest.mark.slow
NewScript = Callable[..., LoneRun]

SCRIPT = """
import os, pathlib, sys, time
here, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]
with (here / f"started-{rank}").open("a") as file:
    file.write("once ")
if rank != os.environ["WAITS"]:
    sys.exit(0)
while not (here / "go").exists():
    time.sleep(0.02)
code = int((here / "go").read_text())
if code:
    (here / "go").unlink()
(here / "saved").touch()
sys.exit(code)
"""
"""One rank saves alone at the end, and takes as long as the test lets it; the others are done."""


@pytest.fixture
def new_script(tmp_path: Path) -> Iterator[NewScript]:
    runs: list[LoneRun] = []

    def make(**lifecycle: float) -> LoneRun:
        base = own_network()
        http, port = free_ports(2)
        spec = RunSpec.model_validate({
            "run": "fake", "identity": "fake-1a2b3c",
            "world": {
                "nodes": 2, "processes_per_node": 1, "device": "cpu",
                "rendezvous": {
                    "kind": "c10d", "host": f"{base}1", "port": port, "min_nodes": 2, "max_nodes": 2,
                    "last_call_seconds": 1, "keep_alive_seconds": 1, "keep_alive_attempts": 3, "max_restarts": 1,
                },
            },
            "lifecycle": {"grace_seconds": 30, "peer_wait_seconds": 60, "attempts_without_progress": 50, **lifecycle},
            "http_port": http,
            "work": {
                "kind": "script", "command": [sys.executable, "-c", SCRIPT, str(tmp_path)],
                "state_directory": str(tmp_path / "state"),
            },
        })
        (tmp_path / "state").mkdir(exist_ok=True)
        runs.append(LoneRun(tmp_path, spec, base))
        return runs[-1]

    yield make
    for run in runs:
        run.clean_up()


def go(run: LoneRun, code: int = 0) -> None:
    (run.directory / "go.tmp").write_text(str(code))
    (run.directory / "go.tmp").rename(run.directory / "go")


@pytest.mark.parametrize("last", ["0", "1"])
def test_a_pod_whose_ranks_are_done_waits_for_the_others(new_script: NewScript, last: str) -> None:
    """Whichever of them saves last: that of the store, of node 0, or another."""
    run = new_script()
    pods = [run.start(number, {"WAITS": last}) for number in (0, 1)]
    wait_until(lambda: any(pod.heard("waiting_for_others") for pod in pods), "a pod that is done", 120, told=run.logs)
    assert [pod.process.poll() for pod in pods] == [None, None], run.logs()
    assert not (run.directory / "state" / "COMPLETE").exists(), "nobody calls it complete yet"
    go(run)
    assert [pod.wait() for pod in pods] == [0, 0], run.logs()
    assert (run.directory / "saved").exists()
    late = run.start(0, {"WAITS": last})
    assert late.wait() == 0, run.logs()
    assert late.heard("already_complete"), "a pod that comes afterwards finds the marker"


def test_a_pod_that_is_done_takes_part_again_where_another_failed(new_script: NewScript) -> None:
    run = new_script()
    pods = [run.start(number, {"WAITS": "0"}) for number in (0, 1)]
    wait_until(lambda: any(pod.heard("waiting_for_others") for pod in pods), "a pod that is done", 120, told=run.logs)
    go(run, 1)
    wait_until(lambda: (run.directory / "started-1").read_text().count("once") == 2, "a second round", 120, told=run.logs)
    go(run)
    assert [pod.wait() for pod in pods] == [0, 0], run.logs()


def test_a_pod_that_is_done_and_told_to_end_is_not_done_with_the_run(new_script: NewScript) -> None:
    run = new_script(grace_seconds=4)
    pods = [run.start(number, {"WAITS": "0"}) for number in (0, 1)]
    wait_until(lambda: any(pod.heard("waiting_for_others") for pod in pods), "a pod that is done", 120, told=run.logs)
    (done,) = [pod for pod in pods if pod.heard("waiting_for_others")]
    done.process.send_signal(signal.SIGTERM)
    assert done.wait() == ExitCode.PREEMPTED_NOT_SAVED, run.logs()


HAND = """
import pathlib, signal, sys, time
from trainwright_trainer import run
signal.signal(signal.SIGTERM, lambda *_: sys.exit(210))
try:
    run.checkpoints.draft(1)
except run.CheckpointError as error:
    print("told:", error, flush=True)
for n in range(1, 10**6):
    run.step(n)
    assert not run.should_stop()
    (pathlib.Path(sys.argv[1]) / f"steps-{run.world.rank}").touch()
    time.sleep(0.02)
"""


def test_pods_that_nothing_connects_cannot_stop_or_commit_together(new_script: NewScript, tmp_path: Path) -> None:
    """So the signal reaches the script, and a commit is refused with the reason."""
    run = new_script()
    work = {"kind": "script", "command": [sys.executable, "-c", HAND, str(tmp_path)], "protocol": True}
    state = {"state_directory": str(tmp_path / "state"), "checkpoints": {}}
    run.spec = RunSpec.model_validate(run.spec.model_dump() | {"work": work | state})
    for number in range(2):
        run.start(number)
    wait_until(lambda: len(list(tmp_path.glob("steps-*"))) == 2, "both ranks work")
    for pod in run.pods:
        pod.process.send_signal(signal.SIGTERM)
    assert [pod.wait() for pod in run.pods] == [ExitCode.PREEMPTED_SAVED] * 2, run.logs()
    assert "told: nothing connects the pods of this run" in run.logs()
