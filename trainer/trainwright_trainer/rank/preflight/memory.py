"""Memory check: how fast does a device read and write its memory?"""

from __future__ import annotations

import time
from typing import Protocol

MEGABYTES = {"cuda": 512, "cpu": 64}
"""Of 2^20 bytes: well beyond a GPU's caches. A large server's hold more than that, and then the figure is in part theirs."""
REPETITIONS = 10


class Memory(Protocol):
    """Numbers in the memory of a device."""

    @property
    def size(self) -> int:
        """In bytes."""

    def copy(self) -> None:
        """Read all of them, write as many elsewhere in the same memory, and wait until that is done."""


def check_memory(memory: Memory) -> float:
    """Copy a few times.

    Returns:
        Bytes per second of the fastest copy. Each byte counts twice, as read and as written (STREAM, "copy").
    """
    fastest = float("inf")
    for repetition in range(REPETITIONS + 1):
        started = time.perf_counter()
        memory.copy()
        if repetition > 0:  # the first takes the memory
            fastest = min(fastest, time.perf_counter() - started)
    return 2 * memory.size / max(fastest, 1e-9)
