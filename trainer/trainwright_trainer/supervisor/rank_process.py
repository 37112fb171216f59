"""One rank's process, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trainwright_trainer.observe.stacks import StackFile
from trainwright_trainer.rank.messages import STACKS_FD_ENV, Act, Ask, Carry, Where
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.link import RankLink
from trainwright_trainer.supervisor.pod.processes import kill_group
from trainwright_trainer.supervisor.pod.rank import OnWord, Rank


class RankProcess(Rank):
    """A child of this supervisor. Leads a process group of its own, so that its helpers end with it."""

    def __init__(self, number: int, on_word: OnWord) -> None:
        super().__init__(number, on_word)
        self.stacks: StackFile = StackFile()
        self._process: subprocess.Popen[bytes] | None = None
        self._link, self._theirs = RankLink.pair(self.hear)

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
            env={**environment, STACKS_FD_ENV: str(self.stacks.descriptor)}, stdin=subprocess.DEVNULL,
            pass_fds=[self._theirs.fileno(), self.stacks.descriptor], start_new_session=True,
        )
        self.alive, self.progressed_at = True, asyncio.get_running_loop().time()
        self._theirs.close()

    def say(self, message: Where | Act | Carry | Ask) -> None:
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
        self.stacks.close()
        self.alive = False
