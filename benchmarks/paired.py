"""Ratios of neighbouring measurements, with their spread."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 10_000
COVERED = 0.95


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours over theirs, round by round."""

    median: float
    least: float
    most: float
    low: float
    """The interval that holds the median of 95 of 100 resamplings of the rounds (percentile bootstrap)."""
    high: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.median:.3f}   {self.least:.3f} to {self.most:.3f}   {self.low:.3f} to {self.high:.3f}"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Of measurements in pairs: each pair was taken in one round, so what the machine did meanwhile touched both.

    Raises:
        ValueError: There is no pair, or a number without its partner.
    """
    each = [one / other for one, other in zip(ours, theirs, strict=True)]
    if not each:
        raise ValueError("a ratio needs at least one round")
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(each, k=len(each))) for _ in range(RESAMPLES))
    edge = round(RESAMPLES * (1 - COVERED) / 2)
    return Ratio(statistics.median(each), min(each), max(each), medians[edge], medians[-1 - edge], len(each))
