"""Share of the median: is this rank's device as fast as those of the others?

One number for every model of GPU, where a threshold in TFLOP/s is another for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from trainwright_trainer.rank.preflight.thresholds import TooSlowError


def shares_of_median(figures: Sequence[float]) -> list[float]:
    """Each rank's figure over the median of all."""
    middle = median(figures)
    return [figure / middle for figure in figures]


def compare_with_median(figures: Sequence[float], rank: int, least: float) -> None:
    """Hold a rank's matrix product, in TFLOP/s, against those of all ranks.

    Raises:
        TooSlowError: It is a smaller share of their median than ``least``: at each step all the others would wait for it.
    """
    share = shares_of_median(figures)[rank]
    if share < least:
        raise TooSlowError(
            f"rank {rank} computes {figures[rank]:.3g} TFLOP/s, {share:.2g} of the median of all {len(figures)} ranks, and "
            f"lifecycle.preflight.min_share_of_median is {least:g}"
        )
