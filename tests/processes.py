"""What Linux says of processes that a test started, and their end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # no such file; no such process where it ends between the opening and the reading
        return False


def kill_tree(root: int) -> None:
    """SIGKILL a process and everything below it, all at once. What ends by itself meanwhile needs none."""
    pending, found = [root], list[int]()
    while pending:
        found.append(pending.pop())
        for listing in Path(f"/proc/{found[-1]}/task").glob("*/children"):
            with suppress(OSError):
                pending += map(int, listing.read_text().split())
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
