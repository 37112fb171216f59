"""A rank whose process is stopped for most of the time, as one on a node that does not let it run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tests.engines.ranks import Rank

from trainwright_trainer.contract.metrics import StepSplit
from trainwright_trainer.observe.metrics import Stragglers, own_seconds
from trainwright_trainer.rank.messages import Pace

PERIOD_SECONDS, STOPPED_SHARE = 0.2, 0.7


@contextmanager
def mostly_stopped(pid: int) -> Iterator[None]:
    """Stop and continue it in turns, within the block."""
    over = threading.Event()

    def turns() -> None:
        with suppress(ProcessLookupError):
            while not over.is_set():
                os.kill(pid, signal.SIGSTOP)
                over.wait(STOPPED_SHARE * PERIOD_SECONDS)
                os.kill(pid, signal.SIGCONT)
                over.wait((1 - STOPPED_SHARE) * PERIOD_SECONDS)

    turning = threading.Thread(target=turns, daemon=True)
    turning.start()
    try:
        yield
    finally:
        over.set()
        turning.join()


def first_called_slow(ranks: Sequence[Rank], every: int, intervals: int = 7) -> tuple[int, ...]:
    """Who is called slow first, by what the ranks say of their logging intervals, which have ``every`` steps each.

    It takes three slow intervals in a row, and other work on the machine may disturb one: so there are more to look at.
    """
    judge = Stragglers()
    for step in range(2 * every, (2 + intervals) * every, every):
        judge.judge(own_seconds({number: _split(rank, step) for number, rank in enumerate(ranks)}))
        if judge.ranks:
            break
    return judge.ranks


def _split(rank: Rank, step: int) -> StepSplit:
    rank.wait_for(lambda message: isinstance(message, Pace) and message.step >= step)
    return next(message.split for message in rank.messages if isinstance(message, Pace) and message.step == step)
