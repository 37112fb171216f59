"""One rank as its supervisor sees it, wherever its process runs: the line to it, what it has said, and its process.

PID 1 adopts orphans and reaps every child, so that nobody is left behind.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from pydantic import TypeAdapter, ValidationError

from trainwright_trainer.contract.base import Contract
from trainwright_trainer.contract.metrics import Phase
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.observe.stacks import StackFile
from trainwright_trainer.rank.messages import (
    FROM_RANK,
    Committed,
    FromRankMessage,
    Heartbeat,
    Measured,
    PhaseChanged,
    Result,
    ToRankMessage,
    Wanted,
)
from trainwright_trainer.run.link import STACKS_FD_ENV
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.pod import process_group
from trainwright_trainer.supervisor.pod.last_words import LastWords
from trainwright_trainer.supervisor.pod.outcome import RankOutcome

PR_SET_CHILD_SUBREAPER = 36
SWEEP_SECONDS = 2.0
CLEAR_SECONDS = 0.02
GROUP_SECONDS = 0.05
"""Between two looks at what is left of a group."""


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, as PID 1 is anyway. Linux only; elsewhere init adopts them."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def clear(seconds: float, but: Collection[int]) -> list[int]:
    """Kill whatever descends from this process, but for some; :func:`reap` collects it. Gives what is there after so long."""
    deadline = time.monotonic() + seconds
    while (left := [child for child in _children() if child not in but]) and time.monotonic() < deadline:
        for child in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        await asyncio.sleep(CLEAR_SECONDS)  # a killed child is about to become a zombie, and its own children ours
    return left


_told_groups: set[int] = set()
"""Leaders of groups of this supervisor's that were told to end."""


def reap(on_exit: Callable[[int, int], None]) -> None:
    """Collect every child that has ended; ``on_exit`` gets its process id and exit status (negative for a signal).

    What a child leaves in its process group is killed: ranks lead groups of their own, and their helpers end with them. Only a
    group that was told to end has the rest of the grace period.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid not in _told_groups:
            kill_group(pid)
        on_exit(pid, os.waitstatus_to_exitcode(status))


def kill_group(leader: int) -> None:
    """SIGKILL to every process of a group, if there are any."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def sweep() -> None:
    """Kill and reap whatever still descends from this process. The last act before it ends; it owns all of its children."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        for child in _children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.02)  # a killed child is about to become a zombie, and its own children ours
    get_log().warning("processes_left_behind", pids=_children())


def _children() -> list[int]:
    found: list[int] = []
    for listing in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += [int(pid) for pid in listing.read_text().split()]
    return found


MAX_LINE_BYTES = 1 << 20
_READ_BYTES = 1 << 16
OnMessage = Callable[[Any], None]
"""Gets what :attr:`RankLink.messages` understands."""
OnWord = Callable[["Rank", FromRankMessage], None]


class RankLink:
    """Reads what a rank says and hands each message on; says things to it without ever waiting for it."""

    messages: ClassVar[TypeAdapter[Any]] = FROM_RANK
    """What is understood."""

    def __init__(self, ours: socket.socket, on_message: OnMessage) -> None:
        self._socket = ours
        self._on_message = on_message
        self._buffer = bytearray()
        self._open = True
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours.fileno(), self.drain)

    @classmethod
    def pair(cls, on_message: OnMessage) -> tuple[Self, socket.socket]:
        """A link, and the rank's end to hand over and close."""
        ours, theirs = socket.socketpair()
        return cls(ours, on_message), theirs

    def say(self, message: Contract) -> None:
        """Send one message. A rank that is gone, or has stopped reading, does not hear it: its silence is noticed elsewhere."""
        if not self._open:
            return
        try:
            self._socket.send(message.model_dump_json().encode() + b"\n")
        except OSError as error:
            get_log().warning("rank_does_not_listen", reason=str(error))

    def drain(self) -> None:
        """Hand on everything that has arrived. Called once more when the process has ended, so that no last word is missed."""
        while self._open:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                return self.close()
            self._buffer += data
            self._deliver()

    def misunderstood(self, line: str, reason: str) -> None:
        """A rank may say something that only a later release knows: it is passed over."""
        get_log().warning("message_not_understood", line=line, reason=reason)

    def close(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()

    def _deliver(self) -> None:
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        for line in lines:
            try:
                message = self.messages.validate_json(bytes(line))
            except ValidationError as error:
                self.misunderstood(bytes(line[:200]).decode(errors="replace"), error.errors()[0]["msg"])
            else:
                self._on_message(message)
            if not self._open:
                return
        if len(self._buffer) > MAX_LINE_BYTES:
            get_log().warning("message_too_long", bytes=len(self._buffer))
            self.close()


class Stacks(Protocol):
    """The stacks of a rank's threads, which it writes when it gets ``SIGUSR2``."""

    def read(self) -> str:
        """All that was written, as far as it is known here."""


class Rank(ABC):
    """What a rank has said, and how to reach it."""

    stacks: Stacks

    def __init__(self, number: int, on_word: OnWord) -> None:
        self.number = number
        """Its rank in the whole run."""
        self.phase: Phase = "starting"
        self.step: int | None = None
        self.committed_step: int | None = None
        self.result: Result | None = None
        self.outcome: RankOutcome | None = None
        """How it ended by itself; None while it runs, and for good if the supervisor killed it first."""
        self.wanted: Wanted | None = None
        """What it waits for."""
        self.last_words: LastWords | None = None
        """Of a script on this machine."""
        self.alive = False
        self.killed = False
        self.beat: Heartbeat | None = None
        """Its last sign of life."""
        self.beat_at = self.progressed_at = 0.0
        """On the loop's clock, when that came, and when its main thread last went on as far as is known."""
        self._on_word = on_word

    @property
    def listens(self) -> bool:
        """Whether it asks at the boundaries of its work if it is to stop, so that SIGTERM is not the way to tell it."""
        return self.beat is not None and self.beat.tick is not None

    @property
    def pid(self) -> int | None:
        """Of its process, where that is a child of this supervisor."""
        return None

    @abstractmethod
    def say(self, message: ToRankMessage) -> None:
        """Send it a message, without waiting for it."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """To the rank itself, not its helpers: what it does with them is its own business."""

    def tell_to_end(self) -> None:
        """SIGTERM to the rank, and where its processes are this supervisor's, to the programs that it runs."""
        self.signal(signal.SIGTERM)

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL to the rank and its helpers; what it has said until now still counts."""

    def hear(self, message: FromRankMessage) -> None:
        """Note what it says and hand it on."""
        now = asyncio.get_running_loop().time()
        match message:
            case Heartbeat():
                self.beat, self.beat_at, self.progressed_at = message, now, now - message.idle_seconds
            case PhaseChanged(phase=phase, step=step):
                self.phase, self.progressed_at = phase, now
                self.step = self.step if step is None else step
            case Measured(values={"trainwright_step": step}) if math.isfinite(step):
                self.step = int(step)
            case Committed(step=step):
                self.committed_step = step
            case Wanted():
                self.wanted = message
            case Result(step=step):
                self.result = message
                self.step = self.step if step is None else step
        self._on_word(self, message)


class RankProcess(Rank):
    """A child of this supervisor. Leads a process group of its own, so that its helpers end with it."""

    def __init__(self, number: int, on_word: OnWord) -> None:
        super().__init__(number, on_word)
        self.stacks: StackFile = StackFile()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._told: set[int] | None = None
        self._link, self._theirs = RankLink.pair(self.hear)

    @property
    def link_descriptor(self) -> int:
        """The rank's end of the link, to name in its environment."""
        return self._theirs.fileno()

    @property
    def pid(self) -> int | None:
        return self._pid

    def spawn(self, command: Sequence[str], environment: Mapping[str, str], last_words: LastWords | None = None) -> None:
        """Start the process. Call from the main thread (see :mod:`shim`). Raises ``OSError`` if the machine cannot.

        ``last_words`` get its standard error.
        """
        self._process = subprocess.Popen(
            shim.tied(command), stderr=None if last_words is None else last_words.descriptor,
            env={**environment, STACKS_FD_ENV: str(self.stacks.descriptor)}, stdin=subprocess.DEVNULL,
            pass_fds=[self._theirs.fileno(), self.stacks.descriptor], start_new_session=True,
        )
        if last_words is not None:
            last_words.begin()
        self.last_words = last_words
        self._began(self._process.pid)

    def fork(self, fork: Callable[[Sequence[int]], int]) -> None:
        """Have the process forked by what gets the descriptors of its link and its stacks, and gives its id."""
        self._began(fork([self._theirs.fileno(), self.stacks.descriptor]))

    def never_began(self) -> None:
        """Nothing could be started: let go of what it would have had."""
        self._close()
        self._theirs.close()

    def _close(self) -> None:
        self._link.close()
        self.stacks.close()

    def _began(self, pid: int) -> None:
        self._pid, self.alive, self.progressed_at = pid, True, asyncio.get_running_loop().time()
        self._theirs.close()

    def say(self, message: ToRankMessage) -> None:
        self._link.say(message)

    def signal(self, number: signal.Signals) -> None:
        """To the rank itself, not its helpers: what it does with them is its own business."""
        if self.alive and self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def tell_to_end(self) -> None:
        """SIGTERM to the rank and the programs that it runs. They have until :meth:`kill`, also when the rank itself is gone."""
        if self.alive and self.pid is not None and self._told is None:
            _told_groups.add(self.pid)
            self._told = process_group.tell_to_end(self.pid)

    def kill(self) -> None:
        """SIGKILL to the rank and its helpers; what it has said until now still counts."""
        if self.alive and self.pid is not None:
            self.killed = True
            kill_group(self.pid)

    def ended(self, status: int, on_nobody_left: Callable[[], None]) -> None:
        """The process was reaped: hear what it said last, then close the link.

        It counts as alive while others of its group have time to end, who were told to; then ``on_nobody_left`` is called.
        """
        if self._process is not None:
            self._process.returncode = status  # tells Popen that somebody else has waited for it
        self._link.drain()
        self._close()
        self.alive = self._others_live()
        if self.alive:
            asyncio.get_running_loop().call_later(GROUP_SECONDS, self._wait_for_group, on_nobody_left)

    def _others_live(self) -> bool:
        if self._told is None or self.pid is None:
            return False
        left = process_group.tell_orphans(self.pid, self._told)
        if not left:
            _told_groups.discard(self.pid)  # the number may be that of a rank of another attempt
        return left

    def _wait_for_group(self, on_nobody_left: Callable[[], None]) -> None:
        self.alive = self._others_live()
        if self.alive:
            asyncio.get_running_loop().call_later(GROUP_SECONDS, self._wait_for_group, on_nobody_left)
        else:
            on_nobody_left()
