"""The supervised pod of a local run as a child process: its log, its end, and the ranks below it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from trainwright_trainer.commands.local.world import LocalRun
from trainwright_trainer.contract.exit_codes import ExitCode, TerminationMessage, reason_of
from trainwright_trainer.contract.layout import TERMINATION_PATH_ENV
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.pod.rank import kill_group

POLL_SECONDS = 0.005
"""Steps of a small model take as long."""
_TAIL_LINES = 20
_END_SECONDS = 10.0
"""For what was killed to be gone; a volume that hangs can hold a process forever."""

_COMMAND = (sys.executable, "-m", "trainwright_trainer", "supervise", "--spec")

Event = Mapping[str, Any]
"""One line of a log."""


class PodFailedError(Exception):
    """A pod did not end as it should have. Carries its exit code, and says the cause."""

    exit_code: ExitCode

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.exit_code = code


class LocalPod:
    """``trainwright-trainer supervise`` as a child. Leave the ``with`` block to end it, however it stands.

    Call from the main thread: the kernel kills the child when the thread that started it ends.

    Args:
        run: What to run.
        folder: Exists; log and termination message go there.
        environment: Of the pod, beside this process's own and the run's.
    """

    def __init__(self, run: LocalRun, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._run, self._log, self._message = run, folder / "pod.log", folder / "termination.json"
        self._environment = {
            **run.environment(os.environ), "PYTHONUNBUFFERED": "1", TERMINATION_PATH_ENV: str(self._message),
            **(environment or {}),
        }
        self._events: list[Event] = []
        self._read = 0
        self._pending = b""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LocalPod:
        command = shim.tied([*_COMMAND, str(self._run.path)])
        with self._log.open("wb") as log:
            # A session of its own: a Ctrl-C at the terminal is this process's to act on.
            self._process = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        process = self._running()
        if process.poll() is None:
            # The kernel ends its ranks with it, but says nothing of when; so each is named now and waited for.
            ranks = _children(process.pid)
            process.kill()
            for rank in ranks:
                kill_group(rank)
            _wait_for_end(ranks)
        process.wait()

    @property
    def pid(self) -> int:
        """Of its supervisor."""
        return self._running().pid

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._running().poll()

    def events(self) -> list[Event]:
        """What it and its ranks have logged until now, oldest first."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        *lines, self._pending = (self._pending + new).split(b"\n")
        for line in lines:
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and "event" in event:
                    self._events.append(event)
        return self._events

    def heard(self, name: str) -> list[Event]:
        """Its events of this name."""
        return [event for event in self.events() if event["event"] == name]

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self._running().wait()

    def succeed(self) -> None:
        """Wait for its end. Raises :class:`PodFailedError` where that is not success."""
        code = self.wait()
        if code:
            raise self.failure(code)

    def wait_until(self, reached: Callable[[], bool]) -> bool:
        """Wait until something is so, or until the pod has ended: False then."""
        process = self._running()
        while not reached():
            if process.poll() is not None:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def kill_ranks(self) -> list[int]:
        """SIGKILL every rank, and wait for the end of the pod. Gives the numbers of the ranks that died of it."""
        for pid in _children(self._running().pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()
        return sorted(event["rank"] for event in self.heard("rank_ended") if event["status"] == -signal.SIGKILL)

    def failure(self, code: int) -> PodFailedError:
        """Why it ended with this code, as its termination message says, or else its last words."""
        try:
            message = TerminationMessage.model_validate_json(self._message.read_bytes())
            known = ExitCode(code)
        except (OSError, ValidationError, ValueError):
            words = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
            return PodFailedError(ExitCode.INTERNAL, f"the pod ended with {code}: " + "\n".join(words))
        cause = message.cause.message if message.cause else "no cause is known"
        return PodFailedError(known, f"the run ended with {code} ({reason_of(known)}): {cause}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the pod was not started")
        return self._process


def _wait_for_end(processes: list[int]) -> None:
    deadline = time.monotonic() + _END_SECONDS
    while any(map(_is_running, processes)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _is_running(pid: int) -> bool:
    """A zombie is not: its new parent may take its time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in listing.read_text().split()]
    return found
