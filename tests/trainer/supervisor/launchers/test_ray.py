"""The driver on a Ray cluster, in an image that has no Ray: with one, tests/engines/ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract import ExitCode, TerminationMessage
from trainwright_trainer.contract.layout import BIND_ENV, SPEC_ENV, TERMINATION_PATH_ENV


def test_a_python_without_ray_is_named(tmp_path: Path) -> None:
    spec = {
        "run": "x", "identity": "x-1",
        "world": {"nodes": 2, "processes_per_node": 1, "device": "cpu", "rendezvous": {"kind": "ray-head"}},
        "lifecycle": {"grace_seconds": 10, "save_seconds": 5, "peer_wait_seconds": 1}, "http_port": free_port(),
        "work": {"kind": "script", "command": ["true"], "state_directory": str(tmp_path / "state")},
    }
    (tmp_path / "run.json").write_text(json.dumps(spec))
    (tmp_path / "ray.py").write_text("raise ImportError('no Ray here')")
    environment = {
        **os.environ, SPEC_ENV: str(tmp_path / "run.json"), TERMINATION_PATH_ENV: str(tmp_path / "message"),
        BIND_ENV: "127.0.0.1", "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path[1:]]),
    }
    command = [sys.executable, "-m", "trainwright_trainer", "ray"]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    cause = TerminationMessage.model_validate_json((tmp_path / "message").read_bytes()).cause
    assert ended.returncode == ExitCode.INVALID_SPEC, ended.stdout
    assert cause is not None
    assert f"{sys.executable} has no Ray Train" in cause.message
    assert "no Ray here" in ended.stderr
