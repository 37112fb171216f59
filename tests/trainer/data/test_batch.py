"""The batch at any number of ranks: every sample once, and the same samples in other portions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.training import WorldBatch
from trainwright_trainer.data.batch import divisors, refit, share_step
from trainwright_trainer.data.order import Samples


def samples(count: int) -> Samples:
    ids = np.arange(1000, 1000 + count)
    return Samples(ids, ids)


@st.composite
def batches(draw: st.DrawFn) -> tuple[WorldBatch, int]:
    micro, accumulation, base = draw(st.integers(1, 9)), draw(st.integers(1, 6)), draw(st.integers(1, 9))
    effective = micro * accumulation * base
    keep = draw(st.sampled_from(["effective", "micro"]))
    ranks = draw(st.integers(1, min(24, effective)))
    return WorldBatch(micro=micro, accumulation=accumulation, keep=keep, effective=effective), ranks


@given(batches())
def test_every_sample_is_on_one_rank(drawn: tuple[WorldBatch, int]) -> None:
    batch, ranks = drawn
    shared = share_step(batch, ranks)
    step = samples(shared.samples)
    seen = np.concatenate([part.ids for rank in range(ranks) for part in shared.slices(step, rank)])
    assert seen.tolist() == step.ids.tolist()


@given(batches())
def test_the_shape_of_shares(drawn: tuple[WorldBatch, int]) -> None:
    batch, ranks = drawn
    shared = share_step(batch, ranks)
    shares = [sum(sizes) for sizes in shared.passes]
    assert max(shares) - min(shares) <= 1
    assert len({len(sizes) for sizes in shared.passes}) == 1
    assert all(0 <= size <= batch.micro for sizes in shared.passes for size in sizes)
    if batch.micro > 1:
        assert all(size > 0 for sizes in shared.passes for size in sizes)
    if batch.keep == "effective":
        assert shared.samples == batch.effective
        assert len(shared.passes[0]) == -(-max(shares) // batch.micro), "no pass more than the largest share needs"


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8))
def test_at_the_size_of_the_run_it_is_micro_times_accumulation(micro: int, accumulation: int, ranks: int) -> None:
    batch = WorldBatch(micro=micro, accumulation=accumulation, keep="effective", effective=micro * accumulation * ranks)
    assert share_step(batch, ranks).passes == ((micro,) * accumulation,) * ranks


def test_a_world_that_does_not_divide_the_batch() -> None:
    shared = share_step(WorldBatch(micro=4, accumulation=2, keep="effective", effective=16), 3)
    assert shared.passes == ((4, 2), (4, 1), (4, 1))
    shared = share_step(WorldBatch(micro=4, accumulation=2, keep="effective", effective=9), 2)
    assert shared.passes == ((4, 1), (3, 1)), "a pass less would leave the others waiting"


def test_without_keep_the_step_follows_the_ranks() -> None:
    assert share_step(WorldBatch(micro=4, accumulation=2), 3).samples == 24


def test_more_ranks_than_samples() -> None:
    with pytest.raises(ValueError, match=r"batch\.effective is 4 and there are 5 ranks"):
        share_step(WorldBatch(micro=4, keep="effective", effective=4), 5)


def test_a_step_of_another_size() -> None:
    with pytest.raises(ValueError, match="a step of 8 samples, and 7 are given"):
        share_step(WorldBatch(micro=4, accumulation=2), 1).slices(samples(7), 0)


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 64))
def test_a_step_keeps_its_samples(micro: int, accumulation: int, replicas: int) -> None:
    samples = micro * accumulation * replicas
    for number in divisors(samples):
        passes = refit(samples, number, micro)
        assert passes.micro * passes.accumulation * number == samples
        assert passes.micro <= micro
    assert refit(samples, replicas, micro).micro == micro


def test_what_cannot_be_shared_names_what_can() -> None:
    with pytest.raises(InvalidRunError, match=r"12 samples, and 5 ranks cannot share them evenly; use one of 1, 2, 3, 4, 6, 12$"):
        refit(12, 5, 4)
    with pytest.raises(InvalidRunError, match="24 ranks"):
        refit(12, 24, 4)
