from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainwright_trainer.data.permutation import permuted


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
