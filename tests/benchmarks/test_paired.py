from __future__ import annotations

import pytest
from benchmarks.paired import ratio


def test_each_round_is_compared_with_itself() -> None:
    """A machine that is three times slower in one round moves both sides of it, and no ratio."""
    found = ratio([100.0, 30.0, 90.0], [200.0, 60.0, 180.0])
    assert (found.median, found.least, found.most, found.low, found.high, found.rounds) == (0.5, 0.5, 0.5, 0.5, 0.5, 3)


def test_the_interval_lies_within_the_spread_and_around_the_median() -> None:
    found = ratio([1.0, 2.0, 3.0, 4.0, 50.0], [1.0] * 5)
    assert found.median == 3.0
    assert found.least <= found.low <= found.median <= found.high <= found.most
    assert (found.least, found.most) == (1.0, 50.0)


def test_the_interval_is_the_same_every_time() -> None:
    assert ratio([1.0, 2.0, 4.0], [3.0, 1.0, 1.0]) == ratio([1.0, 2.0, 4.0], [3.0, 1.0, 1.0])


def test_no_round_and_half_a_round_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one round"):
        ratio([], [])
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0], [])
