"""Checks between nodes: does an all-reduce add up, how fast is it, and do the clocks agree?"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Protocol

from trainwright_trainer.rank.preflight.fitness import Control, UnfitError

MEGABYTES = {"cuda": 256, "cpu": 4}
REPETITIONS = 5
ROUNDS = 5
READING_SECONDS = 0.001
"""Between two readings of clocks that stand beside each other in the code."""
WARNING_SECONDS = 1.0
WHY = "the ledger of attempts and the logs compare clocks of machines: look at the node's time service (`chronyc tracking`)"


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


class WrongClockError(UnfitError):
    """A clock is further off than the run allows."""


def clock_skew(control: Control) -> float:
    """All ranks together: hold this rank's clock against rank 0's.

    Rank 0 leaves a sum after every rank has come to it, reads its clock, and tells the time to all. So its reading lies between
    the moment at which a rank came to the sum and the one at which it heard the time. The middle of the two is the best guess
    for it, and half of the time between them is the most that the guess can be wrong (Cristian 1989, "Probabilistic clock
    synchronization"). The quickest of a few rounds counts: the first waits for the slowest rank.

    Returns:
        Seconds by which this clock is ahead, negative where it is behind, less what is uncertain; 0 if all of it is.
    """
    quickest, ahead = math.inf, 0.0
    for _ in range(ROUNDS):
        started, here = time.monotonic(), time.time()  # in this order, the time between the two counts as uncertain
        control.reduce_sums([0.0])
        there = control.broadcast(time.time())
        seconds = time.monotonic() - started
        if seconds < quickest:
            quickest, ahead = seconds, here + seconds / 2 - there
    certain = abs(ahead) - quickest / 2 - READING_SECONDS
    return math.copysign(certain, ahead) if certain > 0 else 0.0


def compare_clocks(skews: Sequence[float], rank: int, most: float) -> None:
    """Find whose clock is to blame: that of rank 0 where most ranks differ from it, else those that differ.

    Args:
        skews: Of all ranks, against rank 0's clock, in seconds.
        rank: This one.
        most: Seconds that the run allows.

    Raises:
        WrongClockError: This rank's clock is.
    """
    beyond = [abs(skew) for skew in skews if abs(skew) > most]
    first_is_wrong = 2 * len(beyond) > len(skews)
    limit = f"and lifecycle.preflight.max_clock_skew_seconds is {most:g}; {WHY}"
    if rank == 0 and first_is_wrong:
        raise WrongClockError(f"its clock differs from most others' by {min(beyond):.3g} s or more, {limit}")
    if rank > 0 and not first_is_wrong and abs(skews[rank]) > most:
        side = "ahead of" if skews[rank] > 0 else "behind"
        raise WrongClockError(f"its clock is {abs(skews[rank]):.3g} s {side} that of rank 0's node, {limit}")
