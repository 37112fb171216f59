"""Waits: how long a rank is in collectives, so that its own work can be told apart.

All ranks leave a collective together, so the steps of all take equally long, however slow one of them is. Who came early waits in
there for who comes late.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

Instant = Any
"""Of the device's clock: seconds of the host, or an event in a stream of a GPU."""


class Waits:
    """Seconds in collectives within steps, by the clock of what computes.

    On CPUs that is the host's. On a GPU the host goes on and the stream waits, so events are put before and after the collective
    into the stream that is current. Nothing is read from a GPU before the step after, when the loss has been read anyway.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._counting = False
        self._step: list[tuple[Instant, Instant]] = []
        self._step_before: list[tuple[Instant, Instant]] = []
        self._seconds = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """A step. Collectives of anything else, such as an evaluation, do not count."""
        self._counting = True
        yield
        self._counting = False
        self._add_up()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """In a collective."""
        began = self.begin()
        yield
        self.end(began)

    def begin(self) -> Instant | None:
        """From here on this rank waits. For places that no block encloses."""
        return self._now() if self._counting else None

    def end(self, began: Instant | None) -> None:
        """The wait that :meth:`begin` began is over."""
        if began is not None:
            self._step.append((began, self._now()))

    def read(self) -> float:
        """Seconds since the last reading in which at least one collective was under way."""
        self._add_up()
        self._add_up()
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def _now(self) -> Instant:
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _add_up(self) -> None:
        """Count the step before the last one, of which a GPU has finished everything."""
        done, self._step_before, self._step = self._step_before, self._step, []
        until = 0.0
        for began, ended in sorted((self._since(done[0][0], began), self._since(done[0][0], ended)) for began, ended in done):
            self._seconds += max(0.0, ended - max(began, until))  # collectives of several streams overlap
            until = max(until, ended)

    def _since(self, start: Instant, instant: Instant) -> float:
        if not self._on_gpu:
            return float(instant - start)
        instant.synchronize()
        return float(start.elapsed_time(instant)) / 1000
