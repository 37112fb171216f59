"""The first second of a pod: what is refused before anything runs, and what a newcomer sees."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import PATIENCE_SECONDS, wait_until
from tests.trainer.supervisor.conftest import NewRun, specification, training_work

from trainwright_trainer.contract import ExitCode, TerminationMessage
from trainwright_trainer.contract.layout import SPEC_ENV, TERMINATION_PATH_ENV
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.supervisor.supervise import serve_probes

TRAINER = [sys.executable, "-m", "trainwright_trainer"]


def run_trainer(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRAINER, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_no_torch_is_loaded() -> None:
    code = "import sys, trainwright_trainer.commands.app; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "numpy"} & set(json.loads(found.stdout.replace("'", '"')))


def test_validate(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(specification(tmp_path, 4, 8, None, "127.0.0.").model_dump_json())
    found = run_trainer("validate", str(path))
    assert (found.returncode, found.stdout) == (0, "ok: fake-1a2b3c: trainer, 4 x 8 = 32 ranks on cpu\n")
    path.write_text(path.read_text().replace("grace_seconds", "grase_seconds"))
    found = run_trainer("validate", str(path))
    assert found.returncode == ExitCode.INVALID_SPEC
    assert "did you mean grace_seconds?" in found.stderr
    assert "Traceback" not in found.stderr


def test_an_invalid_specification(tmp_path: Path) -> None:
    path, message_path = tmp_path / "run.json", tmp_path / "message.json"
    path.write_text("{}")
    found = run_trainer("supervise", "--spec", str(path), **{TERMINATION_PATH_ENV: str(message_path)})
    assert found.returncode == ExitCode.INVALID_SPEC
    message = TerminationMessage.model_validate_json(message_path.read_bytes())
    assert (message.code, message.reason, message.see) == (10, "InvalidSpec", "trainwright diagnose")
    assert message.cause is not None
    assert "run is missing; add it" in message.cause.message
    [line] = [json.loads(line) for line in found.stdout.splitlines()]
    assert (line["event"], line["level"], line["cause"]) == ("pod_ended", "error", message.cause.message)
    assert "Traceback" not in found.stdout + found.stderr


def test_a_node_index_that_is_wrong(tmp_path: Path) -> None:
    path, message_path = tmp_path / "run.json", tmp_path / "message.json"
    path.write_text(specification(tmp_path, 2, 1, None, "127.0.0.").model_dump_json())
    environment = {SPEC_ENV: str(path), TERMINATION_PATH_ENV: str(message_path), "NODE_INDEX": "2"}
    assert run_trainer("supervise", **environment).returncode == ExitCode.TOPOLOGY_MISMATCH
    message = TerminationMessage.model_validate_json(message_path.read_bytes())
    assert (message.identity, message.see) == ("fake-1a2b3c", "trainwright diagnose fake")
    assert message.cause is not None
    assert "NODE_INDEX is 2 in this pod and world.nodes is 2" in message.cause.message


def test_a_termination_path_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("{}")
    for target in (str(tmp_path), str(tmp_path / "none" / "message.json"), "/proc/message"):
        found = run_trainer("supervise", "--spec", str(path), **{TERMINATION_PATH_ENV: target})
        assert found.returncode == ExitCode.INVALID_SPEC


@pytest.mark.parametrize("port", ["http_port", "control_port"])
def test_a_port_in_use(new_run: NewRun, port: str) -> None:
    run = new_run(nodes=2)
    number = run.spec.http_port if port == "http_port" else run.spec.world.control_port
    with socket.create_server((f"{run.address_base}1", number)):
        run.start(0)
        assert run.wait() == [ExitCode.INTERNAL], run.logs()
    cause = run.pods[0].message().cause
    assert cause is not None
    assert f"cannot listen on {run.address_base}1:{number}" in cause.message
    assert "in use" in cause.message
    assert port in cause.message


def test_one_node_needs_no_control_port(new_run: NewRun) -> None:
    run = new_run(nodes=1)
    with socket.create_server((f"{run.address_base}1", run.spec.world.control_port)):
        run.start(0)
        assert run.wait() == [0], run.logs()


def test_ports_are_free_again_at_once(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    run.plans = {"*": "fail:200:1"}
    for _ in range(3):
        run.pods.clear()
        run.start_all()
        assert ExitCode.INTERNAL in run.wait(), run.logs()
        causes = [pod.message().cause for pod in run.pods]
        assert not any(cause and "cannot listen" in cause.message for cause in causes)


def test_a_volume_that_cannot_be_used(new_run: NewRun, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the directory should be")
    run = new_run(nodes=2, work=training_work(tmp_path / "state"))
    run.start(0)
    assert run.wait() == [ExitCode.STORAGE], run.logs()
    cause = run.pods[0].message().cause
    assert cause is not None
    assert str(tmp_path / "state") in cause.message


def test_sigterm_during_the_imports_is_kept(tmp_path: Path) -> None:
    """Before the imports nothing could handle it, and the kernel drops a signal for process 1 that nobody handles."""
    path, message_path = tmp_path / "run.json", tmp_path / "message.json"
    path.write_text(specification(tmp_path, 2, 1, None, "127.0.0.", peer_wait_seconds=30).model_dump_json())
    pod = subprocess.Popen(
        [*TRAINER, "supervise", "--spec", str(path)], stdout=subprocess.DEVNULL,
        env={**os.environ, "NODE_INDEX": "1", TERMINATION_PATH_ENV: str(message_path)},
    )
    try:
        wait_until(lambda: signal.SIGTERM in kept(pod.pid), "the program holds the signal")
        pod.terminate()
        assert pod.wait(PATIENCE_SECONDS) == ExitCode.PREEMPTED_NOT_SAVED
    finally:
        pod.kill()
        pod.wait()
    cause = TerminationMessage.model_validate_json(message_path.read_bytes()).cause
    assert cause is not None
    assert cause.message.endswith("was told to end by SIGTERM")


def kept(pid: int) -> set[int]:
    """Signals that a process blocks, or handles: it may be past its imports when this is asked."""
    masks = re.findall(r"^Sig(?:Blk|Cgt):\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return {number for number in signal.Signals for mask in masks if int(mask, 16) >> (number - 1) & 1}


def test_probes_are_served_without_a_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("asked the name server"))
    server = serve_probes("127.0.0.1", 0, Measurements())
    server.shutdown()
    server.server_close()


def test_sigint_before_the_first_rank(new_run: NewRun) -> None:
    run = new_run(nodes=2)
    pod = run.start(1)
    pod.wait_for_event("waiting_for_node_0")
    pod.process.send_signal(signal.SIGINT)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED]
