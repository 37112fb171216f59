"""Clock check: does this machine's clock agree with rank 0's?

The ledger holds the times of attempts on several machines against each other, and goodput follows from it; so does whoever reads
the logs of several pods. S3 refuses a request whose time is 15 minutes off (RequestTimeTooSkewed). Our lease compares no clocks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from trainwright_trainer.rank.preflight.control import Control
from trainwright_trainer.rank.preflight.failure import UnfitError

ROUNDS = 5
READING_SECONDS = 0.001
"""Between two readings of clocks that stand beside each other in the code."""
WARNING_SECONDS = 1.0
WHY = "the ledger of attempts and the logs compare clocks of machines: look at the node's time service (`chronyc tracking`)"


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
        here, started = time.time(), time.monotonic()
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
