"""A rank whose process is stopped for most of the time, as one on a node that does not let it run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tests.engines.ranks import Rank

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


def slow_ranks(ranks: Sequence[Rank], steps: Sequence[int]) -> tuple[int, ...]:
    """Who is called slow after the logging intervals that end with these steps, by what the ranks have said of them."""
    judge = Stragglers()
    said = [{message.step: message.split for message in rank.messages if isinstance(message, Pace)} for rank in ranks]
    for step in steps:
        judge.judge(own_seconds({rank: splits[step] for rank, splits in enumerate(said)}))
    return judge.ranks
