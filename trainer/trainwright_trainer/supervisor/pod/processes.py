"""Child processes of PID 1: adopts orphans, reaps everything, leaves nobody behind."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from trainwright_trainer.observe.log import get_log

PR_SET_CHILD_SUBREAPER = 36
SWEEP_SECONDS = 2.0


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, as PID 1 is anyway. Linux only; elsewhere init adopts them."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(on_exit: Callable[[int, int], None]) -> None:
    """Collect every child that has ended; ``on_exit`` gets its process id and exit status (negative for a signal).

    What a child leaves in its process group is killed: ranks lead groups of their own, and their helpers end with them.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
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
