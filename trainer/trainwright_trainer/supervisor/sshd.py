"""Worker of a run under MPI: keeps an ssh server, through which the launcher starts the ranks of this pod."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.background import in_background
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.pod.pod import MARGIN_SECONDS
from trainwright_trainer.supervisor.role import Setting
from trainwright_trainer.supervisor.verdict import Verdict

LOOK_SECONDS = 0.2
_PARENT = b"trainwright_trainer.supervisor.launchers.remote_rank"


class SSHDPart:
    """A :class:`Part`. Its ranks are the launcher's business: they have a line to it, and their results are in its message.

    When this pod is told to end, the parents of its ranks tell the launcher, whose ranks then all stop and save; the pod waits
    for its own, as long as its grace period allows.
    """

    def __init__(self, setting: Setting, place: PodPlace) -> None:
        self.place = place
        self._setting = setting
        self._sshd: subprocess.Popen[bytes] | None = None
        self._ended: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._told = False

    attempt: str | None = None
    step: int | None = None
    committed_step: int | None = None

    async def play(self) -> Verdict:
        self._sshd = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(shim.__file__)), str(os.getpid()), *self._setting.program],
            env=dict(self._setting.environ), stdin=subprocess.DEVNULL, start_new_session=True,
        )
        get_log().info("sshd_started", pid=self._sshd.pid)
        return await self._ended

    async def leave(self, decided: Verdict) -> None:
        pass

    def told_to_end(self, signal_name: str) -> None:
        if self._told:
            return
        self._told = True
        get_log().warning("told_to_end", signal=signal_name)
        in_background(self._part_from_ranks(signal_name))

    def child_ended(self, pid: int, status: int) -> None:
        if self._sshd is not None and pid == self._sshd.pid and not self._told:
            self._sshd.returncode = status
            message = f"{self._setting.program[0]} ended with {status}; its output above says why"
            self._decide(Verdict(ExitCode.INTERNAL, Cause(kind="SSHDEnded", message=message)))

    def fail(self, cause: Cause) -> None:
        self._decide(Verdict(ExitCode.INTERNAL, cause))

    async def _part_from_ranks(self, signal_name: str) -> None:
        loop, grace = asyncio.get_running_loop(), self._setting.spec.lifecycle.grace_seconds
        deadline = loop.time() + max(grace - MARGIN_SECONDS, grace / 2)
        ranks = list(_parents_of_ranks())
        for pid in ranks:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
        while any(_parents_of_ranks()) and loop.time() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
        says = "the launcher's termination message says whether they saved" if ranks else "no rank ran in it"
        message = f"{self.place.host} was told to end by {signal_name}; {says}"
        self._decide(Verdict(ExitCode.PREEMPTED_NOT_SAVED, Cause(kind="ToldToEnd", message=message)))

    def _decide(self, decided: Verdict) -> None:
        if not self._ended.done():
            self._ended.set_result(decided)


def _parents_of_ranks() -> Iterator[int]:
    """Process ids of this pod's parents of ranks: descendants of the supervisor, however deep below sshd and MPI's daemon."""
    pending = [os.getpid()]
    while pending:
        for listing in Path(f"/proc/{pending.pop()}/task").glob("*/children"):
            with suppress(OSError):
                for child in map(int, listing.read_text().split()):
                    pending.append(child)
                    if _PARENT in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                        yield child
