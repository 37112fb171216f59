"""The driver of a run on a Ray cluster, as a RayJob's entrypoint starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.engines.processes import QUIET
from tests.engines.ray.conftest import Cluster
from tests.engines.ray.count import RESULT
from tests.processes import PATIENCE_SECONDS, wait_until

from trainwright_trainer.checkpoint import CheckpointStore, read_complete
from trainwright_trainer.checkpoint.ledger import Ledger
from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract import ExitCode, TerminationMessage
from trainwright_trainer.contract.layout import BIND_ENV, SPEC_ENV, TERMINATION_PATH_ENV
from trainwright_trainer.contract.ledger import AttemptEnded, AttemptStarted

COUNT = Path(__file__).with_name("count.py")
pytestmark = pytest.mark.slow


@dataclass
class Driver:
    process: subprocess.Popen[bytes]
    output: Path
    message_path: Path

    @property
    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.text or self.process.poll() is not None, words)
        assert words in self.text, self.text

    def ends_with(self, code: ExitCode) -> TerminationMessage:
        status = self.process.wait(PATIENCE_SECONDS)
        assert status == code, self.text
        message = TerminationMessage.model_validate_json(self.message_path.read_bytes())
        assert message.code == code
        return message


Start = Callable[..., Driver]


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    drivers: list[Driver] = []

    def run(spec: dict[str, Any]) -> Driver:
        path, number = tmp_path / "run.json", len(drivers)
        path.write_text(json.dumps(spec))
        output, message = tmp_path / f"driver-{number}.log", tmp_path / f"message-{number}.json"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "trainwright_trainer", "ray"], stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ | QUIET | cluster.environment() | {
                    SPEC_ENV: str(path), TERMINATION_PATH_ENV: str(message), BIND_ENV: "127.0.0.1",
                },
            )
        drivers.append(Driver(process, output, message))
        return drivers[-1]

    yield run
    for driver in drivers:
        if driver.process.poll() is None:
            driver.process.kill()
            driver.process.wait()


def specification(directory: Path, **work: Any) -> dict[str, Any]:
    return {
        "run": "digits", "identity": "digits-1",
        "world": {"nodes": 2, "processes_per_node": 1, "device": "cpu", "rendezvous": {"kind": "ray-head"}},
        "lifecycle": {"grace_seconds": 120, "save_seconds": 5, "peer_wait_seconds": 60},
        "http_port": free_port(),
        "work": {
            "kind": "trainer", "engine": "ddp", "task": "image-classification",
            "model": {
                "architecture": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 16,
                "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 10,
            },
            "data": {"source": "digits"}, "batch": {"micro": 16}, "optimizer": {"kind": "adamw"},
            "learning_rate": {"peak": 0.003}, "duration": {"steps": 12}, "precision": "fp32",
            "checkpoints": {"directory": str(directory), "every_steps": 4, "keep": 3}, "log_every_steps": 1,
            **work,
        },
    }


@pytest.mark.nightly
def test_two_nodes_train_and_the_run_is_complete(start: Start, tmp_path: Path) -> None:
    state = tmp_path / "state"
    message = start(specification(state)).ends_with(ExitCode.DONE)
    assert (message.step, message.committed_step, message.attempts) == (12, 12, 1)
    assert 0 < (message.goodput or 0) < 1
    complete = read_complete(state)
    assert complete is not None
    assert (complete.identity, complete.step) == ("digits-1", 12)
    assert [record.step for record in CheckpointStore(state).records()] == [12, 8, 4]
    begun, ended = [event for event in Ledger(state).events() if isinstance(event, AttemptStarted | AttemptEnded)]
    assert begun.attempt == ended.attempt == message.attempt
    again = start(specification(state))  # as a driver that is tried again after it had ended
    again.ends_with(ExitCode.DONE)
    assert "already_complete" in again.text
    assert "launcher_started" not in again.text


def test_sigterm_to_the_driver_saves_on_all_nodes(start: Start, tmp_path: Path) -> None:
    driver = start(specification(tmp_path / "state", duration={"steps": 1_000_000}))
    driver.wait_for('"event": "step"')
    driver.process.send_signal(signal.SIGTERM)
    message = driver.ends_with(ExitCode.PREEMPTED_SAVED)
    assert message.committed_step
    assert message.step == message.committed_step
    assert CheckpointStore(tmp_path / "state").records()[0].step == message.committed_step


@pytest.mark.nightly
def test_a_rank_that_is_killed_is_named(start: Start, tmp_path: Path) -> None:
    driver = start(specification(tmp_path / "state", duration={"steps": 1_000_000}))
    driver.wait_for('"event": "step"')
    os.kill(rank_processes(tmp_path)[1], signal.SIGKILL)
    cause = driver.ends_with(ExitCode.INTERNAL).cause
    assert cause is not None
    assert "rank 1 was killed by SIGKILL" in cause.message
    wait_until(lambda: not rank_processes(tmp_path), "no rank is left")


def test_the_exit_code_of_a_script_s_rank_is_the_driver_s(start: Start, tmp_path: Path) -> None:
    code = "import os, sys; sys.exit(14 if os.environ['RANK'] == '1' else 0)"
    cause = start(script(tmp_path / "state", "-c", code, protocol=True)).ends_with(ExitCode.DIVERGED).cause
    assert cause is not None
    assert cause.rank == 1


@pytest.mark.nightly
def test_a_script_s_rank_that_is_killed_is_named_and_the_next_goes_on_from_what_it_saved(start: Start, tmp_path: Path) -> None:
    driver, store = start(script(tmp_path / "state", str(COUNT))), CheckpointStore(tmp_path / "state")
    # Ranks begin the second when they have said that the first is committed.
    wait_until(lambda: len(store.records()) > 1, "two checkpoints", told=lambda: driver.text)
    os.kill(rank_processes(tmp_path, COUNT)[1], signal.SIGKILL)
    message = driver.ends_with(ExitCode.USER_FAILURE)
    assert message.cause is not None
    assert "rank 1 was killed by SIGKILL" in message.cause.message
    newest = store.records()[0].step
    assert 0 < (message.committed_step or 0) <= newest, "what was committed in the moment of the kill may not have been said"
    again = start(script(tmp_path / "state", str(COUNT)))
    again.ends_with(ExitCode.DONE)
    assert f"begins at step {newest}" in again.text
    assert RESULT in again.text


@pytest.mark.nightly
def test_a_worker_of_ray_that_is_gone_is_a_lost_peer(start: Start, tmp_path: Path) -> None:
    driver = start(specification(tmp_path / "state", duration={"steps": 1_000_000}))
    driver.wait_for('"event": "step"')
    os.kill(parent_of(parent_of(rank_processes(tmp_path)[1])), signal.SIGKILL)
    cause = driver.ends_with(ExitCode.PEER_LOST).cause
    assert cause is not None
    assert "rank 1 is lost" in cause.message
    wait_until(lambda: not rank_processes(tmp_path), "no rank is left")


def test_what_the_cluster_does_not_have_is_said(start: Start, tmp_path: Path) -> None:
    spec = specification(tmp_path / "state")
    spec["world"]["nodes"], spec["lifecycle"]["peer_wait_seconds"] = 3, 1
    driver = start(spec)
    cause = driver.ends_with(ExitCode.PEERS_NEVER_CAME).cause
    assert cause is not None
    assert "the Ray cluster did not come to 3 nodes with 1 CPU each within 1 s" in cause.message
    assert "2 of 3 Ray nodes offer 1 CPU" in driver.text


def test_an_invalid_specification_starts_nothing(start: Start, tmp_path: Path) -> None:
    driver = start(specification(tmp_path / "state", duration={"stepps": 3}))
    cause = driver.ends_with(ExitCode.INVALID_SPEC).cause
    assert cause is not None
    assert "did you mean steps?" in cause.message
    assert "Traceback" not in driver.text


def script(directory: Path, *words: str, protocol: bool = False) -> dict[str, Any]:
    work = {
        "kind": "script", "command": [sys.executable, *words], "protocol": protocol, "state_directory": str(directory),
        "checkpoints": {"keep": 3, "resume": "auto"},
    }
    return specification(directory) | {"work": work}


def rank_processes(folder: Path, program: Path | None = None) -> dict[int, int]:
    """Rank -> process id, of the ranks whose specification lies in a folder: of our trainer, or of a script."""
    started = [b"-m", b"trainwright_trainer.rank"] if program is None else [str(program).encode()]
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((directory / name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
        except OSError:  # it has ended meanwhile
            continue
        variables = dict(line.split(b"=", 1) for line in environment if b"=" in line)
        if command[1:1 + len(started)] == started and str(folder).encode() in variables.get(SPEC_ENV.encode(), b""):
            found[int(variables[b"RANK"])] = int(directory.name)
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
