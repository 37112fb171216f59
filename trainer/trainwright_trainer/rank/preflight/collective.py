"""Collective check: does an all-reduce over all ranks add up, and how fast is it?"""

from __future__ import annotations

import time
from typing import Protocol

from trainwright_trainer.rank.preflight.failure import UnfitError

MEGABYTES = {"cuda": 256, "cpu": 4}
REPETITIONS = 5


class Buffer(Protocol):
    """Numbers on every rank, which one call sums over all of them. Each method waits until it is done."""

    @property
    def size(self) -> int:
        """In bytes."""

    def fill(self, value: float) -> None: ...

    def sum_over_ranks(self) -> None: ...

    def holds(self, value: float) -> bool:
        """Whether every number is this one."""


class WrongSumError(UnfitError):
    """The sum over ranks is not what it must be."""


def check_collective(buffer: Buffer, rank: int, world_size: int) -> float:
    """All ranks together: sum a buffer of known numbers a few times.

    Returns:
        Bus bandwidth in bytes per second of the fastest: 2 (n - 1) / n x bytes / seconds, which does not depend on the number of
        ranks n (nccl-tests, PERFORMANCE.md). 0 for one rank alone.

    Raises:
        WrongSumError: A sum is wrong.
    """
    fastest, expected = float("inf"), world_size * (world_size + 1) / 2
    for repetition in range(REPETITIONS + 1):
        buffer.fill(rank + 1)
        started = time.perf_counter()
        buffer.sum_over_ranks()
        if repetition > 0:  # the first opens connections
            fastest = min(fastest, time.perf_counter() - started)
        if not buffer.holds(expected):
            raise WrongSumError(f"a sum over {world_size} ranks is not {expected:g} everywhere")
    return 2 * (world_size - 1) / world_size * buffer.size / max(fastest, 1e-9)
