from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.contract.training import Duration, LearningRate, Schedule
from trainwright_trainer.optim.schedule import learning_rate, target_samples

rates = st.builds(
    LearningRate,
    peak=st.floats(1e-6, 10),
    schedule=st.sampled_from(["constant", "linear", "cosine"]),
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


def test_warm_up_longer_than_the_run() -> None:
    assert learning_rate(rate("cosine"), 50, 50) == pytest.approx(1.0)
    assert learning_rate(rate("cosine"), 100, 100) == pytest.approx(2.0)
    assert learning_rate(rate("cosine"), 101, 101) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("duration", "target"),
    [(Duration(steps=10), 640), (Duration(epochs=2.5), 2500), (Duration(epochs=0.0001), 1), (Duration(epochs=1.0001), 1001)],
)
def test_targets(duration: Duration, target: int) -> None:
    assert target_samples(duration, dataset_size=1000, global_batch=64) == target
