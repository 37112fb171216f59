"""One rank's speed beside that of the others."""

from __future__ import annotations

import pytest

from trainwright_trainer.contract.spec import Preflight
from trainwright_trainer.rank.preflight.fitness import TooSlowError, compare_with_median, shares_of_median

ONE_SLOW = [700.0, 690.0, 710.0, 420.0, 705.0]


def test_the_slow_one_is_named_and_nobody_else() -> None:
    with pytest.raises(TooSlowError, match=r"rank 3 computes 420 TFLOP/s, 0\.6 of the median of all 5 ranks, and .* is 0\.8"):
        compare_with_median(ONE_SLOW, 3, 0.8)
    for rank in (0, 1, 2, 4):
        compare_with_median(ONE_SLOW, rank, 0.8)
    compare_with_median(ONE_SLOW, 3, 0)


def test_shares() -> None:
    assert shares_of_median([4.0, 2.0, 8.0]) == [1, 0.5, 2]
    assert shares_of_median([7.0]) == [1]


@pytest.mark.parametrize(("stated", "on_gpus", "on_cpus"), [(None, 0.8, 0), (0, 0, 0), (0.5, 0.5, 0.5)])
def test_gpus_are_compared_unless_the_run_says_otherwise(stated: float | None, on_gpus: float, on_cpus: float) -> None:
    settings = Preflight(min_share_of_median=stated)
    assert (settings.least_share_of_median("cuda"), settings.least_share_of_median("cpu")) == (on_gpus, on_cpus)
