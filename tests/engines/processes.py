"""Real processes on the loopback interface, which end when the test does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.processes import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

QUIET = {
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "HF_HUB_OFFLINE": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
"""One thread a process, no GPU, no network."""


class Processes:
    """Starts processes in a folder, with their output in files there, waits for them, and kills their groups in the end.

    Each gets a session of its own, so that whatever it started (``mpirun`` its ranks) goes with it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Path:
        """Start one; returns the file that its standard output and standard error go to."""
        output = self._folder / f"process-{len(self._running)}.log"
        path = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)])
        with output.open("wb") as file:
            process = subprocess.Popen(
                list(map(str, command)), cwd=self._folder, start_new_session=True,
                env=os.environ | {"PATH": path} | QUIET | dict(environment or {}),
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )
        self._running.append((process, output))
        return output

    def wait(self) -> None:
        """Until all have ended with exit code 0; an AssertionError has the output of the one that did not."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        for process, output in self._running:
            try:
                status = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{process.args!r} has not ended after {PATIENCE_SECONDS:g} s:\n{_text(output)}") from None
            assert status == 0, f"{process.args!r} ended with exit code {status}:\n{_text(output)}"

    def run(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """Start one and wait for all."""
        self.start(command, environment)
        self.wait()

    def said(self, rank: int) -> Any:
        """What a rank wrote to ``said-RANK.json`` in its working directory; its output is full of what its libraries say."""
        return json.loads((self._folder / f"said-{rank}.json").read_text(encoding="utf-8"))

    def close(self) -> None:
        """Kill the groups of all, those that are still there."""
        for process, _ in self._running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait()


def _text(output: Path) -> str:
    return output.read_text(encoding="utf-8", errors="replace")
