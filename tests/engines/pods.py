"""Pods as real supervisors, each on a loopback address of its own, with what their containers run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engines.processes import QUIET
from tests.processes import PATIENCE_SECONDS

from trainwright_trainer.contract import TerminationMessage
from trainwright_trainer.contract.layout import BIND_ENV, SPEC_ENV, TERMINATION_PATH_ENV


def address(node: int) -> str:
    return f"127.0.0.{2 + node}"


@dataclass
class Pod:
    """One pod's container."""

    process: subprocess.Popen[bytes]
    output: Path
    termination: Path

    def code(self) -> int:
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the pod still runs:\n{self.text}") from None

    def tell_to_end(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """As a node that fails: the supervisor dies, and its ranks with it."""
        self.process.kill()

    def message(self) -> TerminationMessage:
        return TerminationMessage.model_validate_json(self.termination.read_bytes())

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it and its ranks logged under this name. A last line that is not whole yet is left out."""
        lines = [json.loads(line) for line in self.text.rpartition("\n")[0].splitlines() if line.startswith('{"ts"')]
        return [line for line in lines if line["event"] == name]

    @property
    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")


class Pods:
    """Starts runs; whatever still lives at the end of a test is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._started, self._runs = folder, list[Pod](), 0

    def start(self, spec: dict[str, Any], environments: list[Mapping[str, str]]) -> list[Pod]:
        """One pod for each environment, in the order of nodes."""
        self._runs += 1
        run = self._folder / f"pods-{self._runs}"
        run.mkdir()
        (run / "run.json").write_text(json.dumps(spec))
        return [self._start(run, f"pod-{node}", node, environment) for node, environment in enumerate(environments)]

    def replace(self, pod: Pod, node: int, environment: Mapping[str, str]) -> Pod:
        """A new pod of the same run, when this one has ended."""
        pod.process.wait(PATIENCE_SECONDS)
        return self._start(pod.output.parent, f"pod-{node}-{len(self._started)}", node, environment)

    def _start(self, run: Path, name: str, node: int, environment: Mapping[str, str]) -> Pod:
        output, termination = run / f"{name}.log", run / f"termination-{name}.json"
        own = {SPEC_ENV: str(run / "run.json"), BIND_ENV: address(node), TERMINATION_PATH_ENV: str(termination)}
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "trainwright_trainer", "supervise"], env=os.environ | QUIET | own | dict(environment),
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )
        self._started.append(Pod(process, output, termination))
        return self._started[-1]

    def close(self) -> None:
        for pod in self._started:
            if pod.process.poll() is None:
                pod.process.kill()
                pod.process.wait()
