"""Processes that a test starts: addresses of their own, waiting for what they do, and their end."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PATIENCE_SECONDS = 600.0
"""For anything that takes seconds on an idle machine: on a busy one TensorFlow takes half a minute to trace a model."""
_networks = itertools.count(1)


def own_network() -> str:
    """``127.8.1.``, the beginning of loopback addresses that no other run of the tests has: one for each pod, as in a cluster."""
    return f"127.{os.getpid() % 250 + 1}.{next(_networks) % 250 + 1}."


def wait_until(
    condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS, *, every: float = 0.02,
    told: Callable[[], str] = str,
) -> None:
    """Look ``every`` so many seconds until it is so, and seldom enough to leave the processor to what is waited for.

    Args:
        what: That is waited for.
        told: What the processes have said until then, for the message of the assertion.
    """
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < deadline, f"not within {seconds:g} s: {what}\n{told()}"
        time.sleep(max(every, 4 * (now - began)))


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # no such file; no such process where it ends between the opening and the reading
        return False


def kill_tree(root: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process and everything below it, all at once. What ends by itself meanwhile needs none.

    None of those that are killed sees another's end: they are stopped first, and go from below, a rank before what started it.
    """
    pending, found = [root], list[int]()
    while pending:
        found.append(pending.pop())
        for listing in Path(f"/proc/{found[-1]}/task").glob("*/children"):
            with suppress(OSError):
                pending += map(int, listing.read_text().split())
    for each in (signal.SIGSTOP, number) if number == signal.SIGKILL else (number,):
        for pid in reversed(found):
            with suppress(ProcessLookupError):
                os.kill(pid, each)
