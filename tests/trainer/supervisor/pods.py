"""Real supervisors as processes of this machine, each on an address of its own, with ranks that need no torch."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.forked import Forked, preload
from tests.processes import PATIENCE_SECONDS, is_running, kill_tree, wait_until
from tests.trainer.supervisor import supervised

from trainwright_trainer.contract import RunSpec, TerminationMessage
from trainwright_trainer.contract.layout import BIND_ENV, SPEC_ENV, TERMINATION_PATH_ENV

FAKE_RANK = Path(__file__).with_name("fake_rank.py")


class Supervisor(Protocol):
    """Its process."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int) -> None: ...
    def kill(self) -> None: ...


Begin = Callable[[Sequence[str], Mapping[str, str], Path], Supervisor]
"""Starts a supervisor by the words of :func:`tests.trainer.supervisor.supervised.main`; the file gets what it says."""

preload("tests.trainer.supervisor.supervised", "trainwright_trainer.supervisor.supervise")


def forked(words: Sequence[str], environment: Mapping[str, str], log: Path) -> Supervisor:
    """From a process that has loaded it."""
    log.write_bytes(b"")
    return Forked(supervised.run, [*words], {**environment}, log)


def from_nothing(words: Sequence[str], environment: Mapping[str, str], log: Path) -> Supervisor:
    """As a container does."""
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, supervised.__file__, *words], env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT,
        )


def parent_of(pid: int) -> int:
    [parent] = re.findall(r"^PPid:\t(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(parent)


@dataclass
class PodProcess:
    """One supervisor. ``ended_at`` is known once :meth:`wait` has returned."""

    node: int
    process: Supervisor
    log_path: Path
    message_path: Path
    address: str
    http_port: int
    ended_at: float = 0.0

    def log(self) -> list[dict[str, Any]]:
        """Its events so far. What others have put on the same output is passed over, also the half of a line before an event."""
        events = []
        for line in self.log_path.read_text().splitlines():
            try:
                events.append(json.loads(line[max(0, line.find('{"ts"')):]))
            except ValueError:
                continue
        return [event for event in events if isinstance(event, dict)]

    def heard(self, name: str) -> dict[str, Any] | None:
        """Its first event of this name, if there is one yet."""
        return next((event for event in self.log() if event["event"] == name), None)

    def wait_for_event(self, name: str) -> dict[str, Any]:
        wait_until(lambda: self.heard(name) is not None or self.process.poll() is not None, f"event {name} of node {self.node}")
        event = self.heard(name)
        assert event is not None, f"node {self.node} ended without {name}:\n{self.log_path.read_text()}"
        return event

    def wait_for_a_step(self) -> None:
        """Until its metrics show a step of training."""
        def has_trained() -> bool:
            with suppress(urllib.error.URLError):
                return "\ntrainwright_step " in self.get("/metrics")[1]
            return self.process.poll() is not None

        wait_until(has_trained, f"a step of node {self.node}")
        assert self.process.poll() is None, f"node {self.node} ended without a step:\n{self.log_path.read_text()}"

    def wait(self) -> int:
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"node {self.node} did not end:\n{self.log_path.read_text()}") from None
        self.ended_at = self.ended_at or time.monotonic()
        return code

    def message(self) -> TerminationMessage:
        return TerminationMessage.model_validate_json(self.message_path.read_bytes())

    def get(self, path: str) -> tuple[int, str]:
        with urllib.request.urlopen(f"http://{self.address}:{self.http_port}{path}", timeout=10) as answer:
            return int(answer.status), answer.read().decode()


@dataclass
class Pods:
    """The pods of a run, and the journal that its ranks write."""

    directory: Path
    spec: RunSpec
    address_base: str
    plans: dict[str, str] = field(default_factory=dict)
    pods: list[PodProcess] = field(default_factory=list)
    rank: Sequence[str] | None = (sys.executable, str(FAKE_RANK))
    """What each rank of a run that is no script really runs; None for the trainer itself."""
    begin: Begin = forked

    def launch(
        self, name: str, node: int, address: str, environment: Mapping[str, str], program: Sequence[str] = (),
        spec: RunSpec | None = None,
    ) -> PodProcess:
        """A real supervisor as a process, whose files here begin with a name of their own.

        Args:
            program: What it is told to start, after ``supervise --``.
            spec: Default: the run's.
        """
        spec_path = self.directory / f"{name}-run.json"
        spec_path.write_text((spec or self.spec).model_dump_json())
        log_path, message_path = self.directory / f"{name}.log", self.directory / f"{name}-termination.json"
        variables = {
            **os.environ, SPEC_ENV: str(spec_path), BIND_ENV: address, TERMINATION_PATH_ENV: str(message_path),
            "FAKE_JOURNAL": str(self.journal_path), "FAKE_PLANS": json.dumps(self.plans), **environment,
        }
        process = self.begin([json.dumps(self.rank), *program], variables, log_path)
        self.pods.append(PodProcess(node, process, log_path, message_path, address, self.spec.http_port))
        return self.pods[-1]

    @property
    def journal_path(self) -> Path:
        return self.directory / "journal.jsonl"

    def journal(self, event: str) -> list[dict[str, Any]]:
        if not self.journal_path.exists():
            return []
        *whole, _ = self.journal_path.read_text().split("\n")  # what stands behind the last one is half a line, if anything
        lines = [json.loads(line) for line in whole]
        return [line for line in lines if line["event"] == event]

    def lose(self, pod: PodProcess) -> None:
        """End every process of a pod at once, as a node does that fails. Its ports are free afterwards."""
        kill_tree(pod.process.pid)
        pod.process.wait(PATIENCE_SECONDS)

    def signal_all(self, pod: PodProcess, number: int) -> None:
        """Stop every process of a pod, or let it go on, as a node does that freezes."""
        kill_tree(pod.process.pid, number)

    def logs(self) -> str:
        """For the message of a failing assertion."""
        return "\n".join(f"--- {pod.log_path.name}\n{pod.log_path.read_text()}" for pod in self.pods)

    def clean_up(self) -> None:
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.process.send_signal(signal.SIGCONT)  # a test may have stopped it
                pod.process.kill()
            pod.process.wait(PATIENCE_SECONDS)
        for line in self.journal("started"):
            wait_until(lambda pid=line["pid"]: not is_running(pid), "ranks end with their pods", 60)  # type: ignore[misc]


@dataclass
class Run(Pods):
    """A run of several pods, from one specification."""

    environment: dict[str, str] = field(default_factory=dict)
    program: Sequence[str] = ()
    """What each supervisor is told to start, after ``supervise --``."""

    def start(
        self, node: int, *, spec: RunSpec | None = None, environment: Mapping[str, str] | None = None, reuse: bool = False
    ) -> PodProcess:
        """``reuse`` gives a pod that replaces another one its address, as the names of a cluster would."""
        number = len(self.pods)
        address = f"{self.address_base}{node + 1 if reuse or all(pod.node != node for pod in self.pods) else 100 + number}"
        variables = {"NODE_INDEX": str(node), **self.environment, **(environment or {})}
        return self.launch(f"pod-{number}", node, address, variables, self.program, spec)

    def start_all(self) -> list[PodProcess]:
        return [self.start(node) for node in range(self.spec.world.nodes)]

    def wait(self) -> list[int]:
        codes = [pod.wait() for pod in self.pods]
        for pod, code in zip(self.pods, codes, strict=True):
            if code >= 0:
                assert pod.message().code == code, f"node {pod.node} exits with {code} and says {pod.message().code}"
        return codes

    def wait_for_ranks(self) -> dict[int, int]:
        """Process ids by rank, once all ranks have started."""
        wait_until(lambda: len(self.journal("started")) == self.spec.world.size, "all ranks started")
        return {line["rank"]: line["pid"] for line in self.journal("started")}

    def wait_for_training(self) -> dict[int, int]:
        """Process ids by rank, once all ranks train and every pod's metrics show a step, which any of its ranks may have said."""
        pids = self.wait_for_ranks()
        wait_until(lambda: len(self.journal("training")) == self.spec.world.size, "all ranks train", told=self.logs)
        for pod in self.pods:
            pod.wait_for_a_step()
        return pids
