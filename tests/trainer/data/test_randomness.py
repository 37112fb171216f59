from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.data.randomness import uniforms


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
