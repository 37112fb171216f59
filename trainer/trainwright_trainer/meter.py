"""Meter: training speed over a logging interval, without the time that evaluation and saves take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Speed:
    samples_per_second: float
    """Of the whole run."""
    step_seconds: float
    own_seconds: float
    """Of a step, without the waits for other ranks that were told."""


class Meter:
    """Counts steps, samples and their time until it is read."""

    def __init__(self) -> None:
        self._seconds, self._waited, self._steps, self._samples = 0.0, 0.0, 0, 0
        self._in_step = False

    @contextmanager
    def step(self, samples: int) -> Iterator[None]:
        """Time one step of so many samples."""
        started = time.perf_counter()
        self._in_step = True
        yield
        self._in_step = False
        self._seconds += time.perf_counter() - started
        self._steps += 1
        self._samples += samples

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time a wait for other ranks; outside of a step it does not count."""
        started = time.perf_counter()
        yield
        if self._in_step:
            self._waited += time.perf_counter() - started

    @contextmanager
    def computing(self, clock: Callable[[], float]) -> Iterator[None]:
        """Time a call that computes and waits for other ranks in turns: a wait is what it uses no processor for.

        ``clock`` has the processor's seconds of the threads that compute: ``time.thread_time`` or ``time.process_time``.
        """
        started, used = time.perf_counter(), clock()
        yield
        self._waited += max(0.0, time.perf_counter() - started - (clock() - used))

    def read(self) -> Speed:
        """Means since the last reading. Raises ``ZeroDivisionError`` if there was no step."""
        own = max(0.0, self._seconds - self._waited)
        speed = Speed(self._samples / max(self._seconds, 1e-9), self._seconds / self._steps, own / self._steps)
        self._seconds, self._waited, self._steps, self._samples = 0.0, 0.0, 0, 0
        return speed
