from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.contract.training import LearningRate, Scaling, Schedule
from trainwright_trainer.optim.schedule import learning_rate

rates = st.builds(
    LearningRate,
    peak=st.floats(1e-6, 10),
    schedule=st.sampled_from(["constant", "linear", "cosine", "wsd"]),
    warmup_samples=st.integers(0, 5000),
    final_fraction=st.floats(0, 1),
)


def rate(schedule: Schedule) -> LearningRate:
    return LearningRate(peak=2.0, schedule=schedule, warmup_samples=100, final_fraction=0.1)


@given(rate=rates, samples=st.integers(1, 20_000), target=st.integers(1, 10_000))
def test_between_zero_and_the_peak(rate: LearningRate, samples: int, target: int) -> None:
    assert 0 <= learning_rate(rate, samples, target) <= rate.peak * (1 + 1e-12)


@given(rate=rates, target=st.integers(1, 10_000), data=st.data())
def test_rises_then_never_rises_again(rate: LearningRate, target: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, target))
    second = data.draw(st.integers(first, target))
    early, late = (learning_rate(rate, samples, target) for samples in (first, second))
    if second <= rate.warmup_samples:
        assert early <= late * (1 + 1e-12)
    elif first >= rate.warmup_samples:
        assert late <= early * (1 + 1e-12)


@pytest.mark.parametrize(("schedule", "middle", "end"), [("constant", 2.0, 2.0), ("linear", 1.1, 0.2), ("cosine", 1.1, 0.2)])
def test_known_points(schedule: Schedule, middle: float, end: float) -> None:
    points = [learning_rate(rate(schedule), samples, 1100) for samples in (50, 100, 600, 1100, 1200)]
    assert points == pytest.approx([1.0, 2.0, middle, end, end])


def test_warm_up_stay_decay() -> None:
    wsd = LearningRate(peak=2.0, schedule="wsd", warmup_samples=100, final_fraction=0.1, decay_fraction=0.25)
    points = [learning_rate(wsd, samples, 1000) for samples in (50, 100, 500, 750, 750 + 62.5, 1000, 1100)]  # type: ignore[arg-type]
    assert points[:4] == [1.0, 2.0, 2.0, 2.0]
    assert points[4:] == pytest.approx([2 * (0.1 + 0.9 * 0.5), 0.2, 0.2])  # half of the way after a quarter of the decay
    assert learning_rate(wsd, 1000, 2000) == 2.0  # a longer run is still at its peak there
    default = LearningRate(peak=2.0, schedule="wsd")
    assert (learning_rate(default, 800, 1000), learning_rate(default, 801, 1000) < 2.0) == (2.0, True)


def test_only_wsd_says_when_to_decay() -> None:
    with pytest.raises(ValueError, match="decay_fraction is for schedule wsd, and schedule is cosine"):
        LearningRate(peak=1, decay_fraction=0.5)


@pytest.mark.parametrize(("scaling", "factor"), [(None, 1), ("none", 1), ("linear", 4), ("square_root", 2)])
def test_a_batch_that_moved(scaling: Scaling | None, factor: float) -> None:
    scaled = LearningRate(peak=0.5, schedule="cosine", warmup_samples=100, scaling=scaling)
    for samples in (50, 100, 600, 1000):
        assert learning_rate(scaled, samples, 1000, batch=64, base=64) == learning_rate(scaled, samples, 1000)
        assert learning_rate(scaled, samples, 1000, batch=256, base=64) == pytest.approx(
            factor * learning_rate(scaled, samples, 1000)
        )


def test_warm_up_longer_than_the_run() -> None:
    assert learning_rate(rate("cosine"), 50, 50) == pytest.approx(1.0)
    assert learning_rate(rate("cosine"), 100, 100) == pytest.approx(2.0)
    assert learning_rate(rate("cosine"), 101, 101) == pytest.approx(0.2)
