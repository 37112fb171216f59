"""Work on many items, spread over the processors of this machine: what an item becomes follows from the item alone."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Spread(Protocol):
    """Does the same work on each item, and gives the results in the order of the items."""

    def __call__(self, work: Callable[[T], R], items: Sequence[T], /) -> Iterator[R]: ...


def alone(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """In this process, item by item as the results are asked for."""
    return map(work, items)


METHOD = "fork" if sys.platform == "linux" else "spawn"
"""How processes start: macOS libraries do not survive a fork, and Windows has none."""

FEWEST = {"fork": 50, "spawn": 200}
"""Items for each process: with fewer, to start it takes longer than it saves."""

WARM = 12
"""Items before processes start."""

MOST = 8
"""Processes: one alone reads and compares what they make."""


def over_processors(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """In a process for each processor, if there are enough items; ``work``, items and results must be picklable.

    For programs whose main module can be imported again, and that have started no thread: the command line.
    """
    return _over(work, items, WARM)


def over_cold_processors(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """The same, and no item is done here first: of work that starts a program, which a fork would share."""
    return _over(work, items, 0)


def _over(work: Callable[[T], R], items: Sequence[T], warm: int) -> Iterator[R]:
    count = min(_processors(), MOST, len(items) // FEWEST[METHOD])
    if count < 2:
        yield from map(work, items)
        return
    yield from map(work, items[:warm])  # what is loaded and built when it is first used, a fork need not load and build
    from concurrent.futures import ProcessPoolExecutor  # few projects are that large
    from multiprocessing import get_context

    size = max(1, min(FEWEST[METHOD], len(items) // (4 * count)))
    with ProcessPoolExecutor(count, get_context(METHOD), _begin, (work,)) as pool:
        yield from pool.map(_do, items[warm:], chunksize=size)


def _processors() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_work: Callable[[Any], Any] = iter
"""Of a process that was started for it."""


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it


def _do(item: Any) -> Any:
    return _work(item)
