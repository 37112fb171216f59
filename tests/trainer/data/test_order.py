"""The order of samples is pure, total and independent of the number of ranks, and so is what is drawn for each."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.data.order import (
    PADDING,
    TABLE_SAMPLES,
    DataOrder,
    Samples,
    evaluation_slices,
    permuted,
    uniforms,
)

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


@given(size=st.integers(1, 5000), key=st.text(max_size=10))
def test_every_number_comes_once(size: int, key: str) -> None:
    assert sorted(permuted(np.arange(size), size, key).tolist()) == list(range(size))


@given(size=st.integers(1, 2**62), data=st.data())
def test_each_place_stands_alone(size: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20))
    together = permuted(np.array(places), size, "key").tolist()
    assert together == [permuted(np.array([place]), size, "key")[0] for place in places]
    assert all(0 <= number < size for number in together)


def test_it_is_well_mixed() -> None:
    """Neighbours land apart, every part of the range is met from every part, and another key is another permutation."""
    size = 1_000_000
    found, other = (permuted(np.arange(size), size, key) for key in ("a", "b"))
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 5 / np.sqrt(size)
    assert abs(np.corrcoef(found, np.arange(size))[0, 1]) < 5 / np.sqrt(size)
    assert abs(np.corrcoef(found, other)[0, 1]) < 5 / np.sqrt(size)
    counts = np.histogram2d(np.arange(size), found, bins=20)[0]
    assert np.abs(counts - size / 400).max() < 5 * np.sqrt(size / 400)


def test_orders_are_drawn_evenly() -> None:
    """Each of five numbers comes first about equally often over 4,000 keys, within five standard deviations."""
    firsts = np.bincount([permuted(np.arange(1), 5, str(key))[0] for key in range(4000)], minlength=5)
    assert np.abs(firsts - 800).max() < 5 * np.sqrt(4000 * 0.2 * 0.8)


@given(seed=st.integers(0, 2**53), start=st.integers(0, 2**40), cut=st.integers(0, 20), count=st.integers(1, 40))
def test_a_row_is_a_function_of_its_position(seed: int, start: int, cut: int, count: int) -> None:
    positions = np.arange(start, start + 20)
    whole = uniforms(seed, "crop", positions, count)
    parts = [uniforms(seed, "crop", part, count) for part in (positions[cut:], positions[:cut])]
    assert np.array_equal(whole, np.concatenate([parts[1], parts[0]]))
    assert np.array_equal(whole[:, :1], uniforms(seed, "crop", positions, 1))


def test_numbers_are_pinned() -> None:
    """Other numbers would mean other crops and masks after a resume under a newer trainer."""
    assert uniforms(7, "crop", np.array([0, 12345]), 2).tolist() == [
        [0.9925762052518479, 0.3306965704874423], [0.07439769735347435, 0.026912254270624714],
    ]


def test_seed_and_purpose_matter() -> None:
    positions = np.arange(50)
    first = uniforms(1, "crop", positions, 4)
    assert not np.array_equal(first, uniforms(2, "crop", positions, 4))
    assert not np.array_equal(first, uniforms(1, "mask", positions, 4))


def test_numbers_are_uniform_and_unrelated() -> None:
    """Counts in 20 bins, and correlations along rows and columns, within five standard deviations."""
    drawn = uniforms(3, "mask", np.arange(4000), 50)
    assert 0 <= drawn.min() < 1e-4 < 1 - 1e-4 < drawn.max() < 1
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    assert np.abs(counts - drawn.size / 20).max() < 5 * np.sqrt(drawn.size * 0.05 * 0.95)
    for ahead, behind in ((drawn[1:], drawn[:-1]), (drawn[:, 1:], drawn[:, :-1])):
        assert abs(np.corrcoef(ahead.ravel(), behind.ravel())[0, 1]) < 5 / np.sqrt(ahead.size)
