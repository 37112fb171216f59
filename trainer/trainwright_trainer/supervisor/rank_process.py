"""One rank's process, as its supervisor sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trainwright_trainer.lifecycle.messages import Act, Carry, Committed, Measured, Phase, PhaseChanged, Result, Where
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.children import kill_group
from trainwright_trainer.supervisor.link import FromRankMessage, RankLink
from trainwright_trainer.supervisor.outcome import RankOutcome

OnWord = Callable[["RankProcess", FromRankMessage], None]


class RankProcess:
    """A running or ended rank. Leads a process group of its own, so that its helpers end with it."""

    def __init__(self, number: int, on_word: OnWord) -> None:
        self.number = number
        """Its rank in the whole run."""
        self.phase: Phase = "starting"
        self.step: int | None = None
        self.committed_step: int | None = None
        self.result: Result | None = None
        self.outcome: RankOutcome | None = None
        """How it ended by itself; None while it runs, and for good if the supervisor killed it first."""
        self.alive = False
        self.killed = False
        self._on_word = on_word
        self._process: subprocess.Popen[bytes] | None = None
        self._link, self._theirs = RankLink.pair(self._hear)

    @property
    def link_descriptor(self) -> int:
        """The rank's end of the link, to name in its environment."""
        return self._theirs.fileno()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def spawn(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the process. Call from the main thread (see :mod:`shim`). Raises ``OSError`` if the machine cannot."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(shim.__file__)), str(os.getpid()), *command],
            env=dict(environment), stdin=subprocess.DEVNULL, pass_fds=[self._theirs.fileno()], start_new_session=True,
        )
        self.alive = True
        self._theirs.close()

    def say(self, message: Where | Act | Carry) -> None:
        self._link.say(message)

    def signal(self, number: signal.Signals) -> None:
        """To the rank itself, not its helpers: what it does with them is its own business."""
        if self.alive and self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL to the rank and its helpers; what it has said until now still counts."""
        if self.alive and self.pid is not None:
            self.killed = True
            kill_group(self.pid)

    def ended(self, status: int) -> None:
        """The process was reaped: hear what it said last, then close the link."""
        if self._process is not None:
            self._process.returncode = status  # tells Popen that somebody else has waited for it
        self._link.drain()
        self._link.close()
        self.alive = False

    def _hear(self, message: FromRankMessage) -> None:
        match message:
            case PhaseChanged(phase=phase, step=step):
                self.phase = phase
                self.step = self.step if step is None else step
            case Measured(values={"trainwright_step": step}):
                self.step = int(step)
            case Committed(step=step):
                self.committed_step = step
            case Result(step=step):
                self.result = message
                self.step = self.step if step is None else step
        self._on_word(self, message)

