"""Meter: training speed over a logging interval, without the time that evaluation and saves take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Speed:
    samples_per_second: float
    """Of the whole run."""
    step_seconds: float


class Meter:
    """Counts steps, samples and their time until it is read."""

    def __init__(self) -> None:
        self._seconds, self._steps, self._samples = 0.0, 0, 0

    @contextmanager
    def step(self, samples: int) -> Iterator[None]:
        """Time one step of so many samples."""
        started = time.perf_counter()
        yield
        self._seconds += time.perf_counter() - started
        self._steps += 1
        self._samples += samples

    def read(self) -> Speed:
        """Means since the last reading. Raises ``ZeroDivisionError`` if there was no step."""
        speed = Speed(self._samples / max(self._seconds, 1e-9), self._seconds / self._steps)
        self._seconds, self._steps, self._samples = 0.0, 0, 0
        return speed
