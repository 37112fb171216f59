from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.data.order import PADDING, TABLE_SAMPLES, DataOrder, Samples, evaluation_slices, rank_slice

sizes = st.integers(1, 500)
seeds = st.integers(0, 2**53)


def order(seed: int, size: int) -> DataOrder:
    return DataOrder(seed, size, "fingerprint")


def pairs(parts: list[Samples]) -> list[tuple[int, int]]:
    """Each sample's id and its position."""
    return [pair for part in parts for pair in zip(part.ids.tolist(), part.positions.tolist(), strict=True)]


@given(seed=seeds, size=sizes, epoch=st.integers(0, 50))
def test_an_epoch_is_a_permutation(seed: int, size: int, epoch: int) -> None:
    assert sorted(order(seed, size).batch(epoch * size, size).ids) == list(range(size))


@given(seed=seeds, size=sizes, start=st.integers(0, 2000), batches=st.lists(st.integers(1, 90), min_size=1, max_size=8))
def test_how_a_stretch_is_cut_changes_nothing(seed: int, size: int, start: int, batches: list[int]) -> None:
    """Any sequence of batch sizes reads the same stream, over the ends of epochs."""
    position, parts = start, []
    for batch in batches:
        parts.append(order(seed, size).batch(position, batch))
        position += batch
    assert pairs(parts) == pairs([order(seed, size).batch(start, sum(batches))])


@given(seed=seeds, start=st.integers(0, 3000), per_rank=st.integers(1, 6).map(lambda n: 2**n), data=st.data())
def test_world_size_and_accumulation_change_nothing(seed: int, start: int, per_rank: int, data: st.DataObject) -> None:
    world = data.draw(st.sampled_from([1, 2, 4, 8]))
    micro = data.draw(st.sampled_from([2**n for n in range(per_rank.bit_length())]))
    batch = order(seed, 300).batch(start, 8 * per_rank)
    shares = [rank_slice(batch, rank, world, micro) for rank in range(world)] if 8 * per_rank // world % micro == 0 else []
    if shares:
        assert pairs([part for share in shares for part in share]) == pairs([batch])
        assert all(len(part) == micro for share in shares for part in share)


def test_the_order_is_pinned() -> None:
    """A changed order would make a resumed run see samples twice and others never."""
    assert DataOrder(7, 10, "abc").batch(0, 20).ids.tolist() == [
        9, 1, 8, 3, 7, 5, 2, 0, 4, 6,
        1, 5, 2, 9, 6, 3, 4, 8, 0, 7,
    ]


def test_a_large_order_is_pinned_and_needs_no_table() -> None:
    """A trillion samples: their table would be eight terabytes."""
    order = DataOrder(7, 10**12, "abc")
    assert order.batch(10**12 - 2, 4).ids.tolist() == [101177568592, 374223668915, 555874611517, 633959547952]
    assert len(set(order.batch(0, 100_000).ids.tolist())) == 100_000


@given(start=st.integers(0, 3 * (TABLE_SAMPLES + 1)), cut=st.integers(0, 50))
def test_how_a_stretch_of_a_large_order_is_cut_changes_nothing(start: int, cut: int) -> None:
    order = DataOrder(1, TABLE_SAMPLES + 1, "abc")
    assert pairs([order.batch(start, cut), order.batch(start + cut, 50 - cut)]) == pairs([order.batch(start, 50)])


def test_seed_epoch_and_data_change_the_order() -> None:
    first = order(1, 100).batch(0, 100).ids
    assert not np.array_equal(first, order(2, 100).batch(0, 100).ids)
    assert not np.array_equal(first, order(1, 100).batch(100, 100).ids)
    assert not np.array_equal(first, DataOrder(1, 100, "other").batch(0, 100).ids)


def test_positions_are_uniform() -> None:
    """Each sample comes first about equally often: 4,000 epochs of 10 samples, five standard deviations of a binomial."""
    firsts = np.bincount([order(3, 10).batch(epoch * 10, 1).ids[0] for epoch in range(4000)], minlength=10)
    assert np.abs(firsts - 400).max() < 5 * np.sqrt(4000 * 0.1 * 0.9)


def test_batch_that_does_not_divide() -> None:
    with pytest.raises(ValueError, match="a global batch of 10 does not divide into 4 ranks"):
        rank_slice(order(0, 10).batch(0, 10), 0, 4, 1)


def test_epoch_counts_fractions() -> None:
    assert order(0, 200).epoch(500) == 2.5


@given(size=sizes, world=st.integers(1, 9), micro=st.integers(1, 40))
def test_evaluation_covers_everything_once_and_evenly(size: int, world: int, micro: int) -> None:
    shares = [evaluation_slices(size, rank, world, micro) for rank in range(world)]
    assert len({len(share) for share in shares}) == 1
    assert all(len(batch) == micro for share in shares for batch in share)
    assert all(np.array_equal(batch.ids, batch.positions) for share in shares for batch in share)
    ids = np.concatenate([batch.ids for share in shares for batch in share])
    assert sorted(ids[ids != PADDING]) == list(range(size))
    assert len(ids) - size < world * micro
