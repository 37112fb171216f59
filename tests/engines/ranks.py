"""Ranks of a run as processes, each with the test at the other end of its link, where its supervisor would be."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.engines.processes import QUIET
from tests.processes import PATIENCE_SECONDS

from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.rank.messages import (
    ATTEMPT_ENV,
    FROM_RANK,
    FromRankMessage,
    PhaseChanged,
    Result,
    ToRankMessage,
)
from trainwright_trainer.run.link import AGREEMENT_ENV, LINK_FD_ENV

LAST_SECONDS = 10.0
"""For each rank that has not ended by then: others may have used up the patience, and it is on its way out."""


class Process(Protocol):
    """What :class:`subprocess.Popen` has and a test needs."""

    pid: int

    def wait(self, timeout: float | None = None) -> int: ...

    def poll(self) -> int | None: ...


@dataclass
class Rank:
    """A running rank."""

    number: int
    attempt: str
    process: Process
    output: Path
    link: socket.socket
    messages: list[FromRankMessage] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    listener: threading.Thread | None = None

    def begin_to_listen(self) -> None:
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def hear_out(self) -> None:
        """Until all that it said has been heard: its last words may still be on the line when the process is gone."""
        if self.listener is not None:
            self.listener.join(PATIENCE_SECONDS)

    def _listen(self) -> None:
        for line in self.link.makefile("rb"):
            with self.changed:
                self.messages.append(FROM_RANK.validate_json(line))
                self.changed.notify_all()

    def say(self, message: ToRankMessage) -> None:
        self.link.sendall(message.model_dump_json().encode() + b"\n")

    def wait_for(self, wanted: Callable[[FromRankMessage], bool]) -> FromRankMessage:
        def found() -> FromRankMessage | None:
            return next((message for message in self.messages if wanted(message)), None)

        with self.changed:
            message = self.changed.wait_for(found, timeout=PATIENCE_SECONDS)
        assert message is not None, f"rank {self.number} never said it:\n{self.text}"
        return message

    def wait_for_phase(self, phase: str) -> None:
        self.wait_for(lambda message: isinstance(message, PhaseChanged) and message.phase == phase)

    def wait(self, seconds: float) -> None:
        """Until it has ended, or so long."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, seconds))

    def code(self) -> int:
        """Once it has ended, and all that it said has been heard."""
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"rank {self.number} still runs:\n{self.text}") from None
        self.hear_out()
        return code

    def cause(self) -> str:
        """What its last word says of the failure."""
        result = self.wait_for(lambda message: isinstance(message, Result))
        assert isinstance(result, Result)
        assert result.cause is not None
        return result.cause.message

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it logged under this name. A last line that is not whole yet is left out."""
        lines = [json.loads(line) for line in self.text.rpartition("\n")[0].splitlines() if line.startswith('{"ts"')]
        return [line for line in lines if line["event"] == name]

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)

    @property
    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")


class Ranks:
    """Starts runs of one program; whatever still lives at the end of a test is killed."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self._folder = program, folder
        self._started: list[Rank] = []
        self._runs = 0

    def start(self, spec: dict[str, Any], environment: Mapping[int, Mapping[str, str]] | None = None) -> list[Rank]:
        """One process per rank of the specification, in the order of ranks, each in a pod of its own.

        ``environment`` has what else a rank's environment holds, by the rank's number.
        """
        self._runs += 1
        run = self._folder / f"run-{self._runs}"
        run.mkdir()
        world, attempt = RunSpec.model_validate(spec).world, f"attempt-{self._runs}"
        (run / "run.json").write_text(json.dumps(spec))
        ranks = []
        for rank in range(world.size):
            ours, theirs = socket.socketpair()
            numbers = {
                SPEC_ENV: str(run / "run.json"), ATTEMPT_ENV: attempt, LINK_FD_ENV: str(theirs.fileno()),
                "RANK": str(rank), "WORLD_SIZE": str(world.size), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "GROUP_RANK": str(rank), "GROUP_WORLD_SIZE": str(world.nodes),
            }
            linked = {} if world.control_port is not None or world.size == 1 else {AGREEMENT_ENV: "collective"}
            ours_alone = (environment or {}).get(rank, {})
            output = run / f"rank-{rank}.log"
            process = self.spawn(numbers | linked | dict(ours_alone), output, theirs)
            theirs.close()
            ranks.append(Rank(rank, attempt, process, output, ours))
        self._started += ranks
        for started in ranks:
            started.begin_to_listen()
        return ranks

    def spawn(self, environment: Mapping[str, str], output: Path, link: socket.socket) -> Process:
        """Start one rank, which inherits its end of the link."""
        with output.open("wb") as file:
            return subprocess.Popen(
                [sys.executable, "-m", self._program], env=os.environ | QUIET | dict(environment), pass_fds=[link.fileno()],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )

    def finish(
        self, spec: dict[str, Any], code: int = 0, environment: Mapping[int, Mapping[str, str]] | None = None
    ) -> list[Rank]:
        """Start, wait for the end, and expect this code of every rank."""
        ranks = self.start(spec, environment)
        deadline = time.monotonic() + PATIENCE_SECONDS
        for rank in ranks:
            rank.wait(deadline - time.monotonic())
        for rank in ranks:
            rank.wait(LAST_SECONDS)
        codes = [rank.process.poll() for rank in ranks]  # None of one that still runs
        told = "\n".join(f"rank {rank.number}: {rank.text}" for rank in ranks)
        assert codes == [code] * len(ranks), f"they end with {codes}:\n{told}"
        for rank in ranks:
            rank.hear_out()
        return ranks

    def close(self) -> None:
        for rank in self._started:
            if rank.process.poll() is None:
                rank.kill()
                rank.process.wait()
            rank.link.close()
