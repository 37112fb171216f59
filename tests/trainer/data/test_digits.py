from __future__ import annotations

import numpy as np
import pytest

from trainwright_trainer.contract.data import DIGITS_SAMPLES, Digits
from trainwright_trainer.data import digits
from trainwright_trainer.failures import DataError


def test_shapes_and_scale() -> None:
    data = digits.load(Digits(source="digits"))
    assert len(data.train) == Digits(source="digits").train_samples
    assert len(data.train) + len(data.held_out) == DIGITS_SAMPLES
    images = data.train.columns["images"]
    assert images.shape[1:] == (1, 8, 8)
    assert images.dtype == np.float32
    assert (images.min(), images.max()) == (-1, 1)
    assert set(data.held_out.columns["labels"]) == set(range(10))


def test_split_is_fixed_and_disjoint() -> None:
    once, again = (digits.load(Digits(source="digits")) for _ in range(2))
    assert once.fingerprint == again.fingerprint
    assert np.array_equal(once.held_out.columns["images"], again.held_out.columns["images"])
    larger = digits.load(Digits(source="digits", held_out=0.5))
    assert larger.fingerprint != once.fingerprint
    assert np.array_equal(larger.held_out.columns["labels"][:len(once.held_out)], once.held_out.columns["labels"])


def test_split_without_samples() -> None:
    with pytest.raises(DataError, match="leaves a split without samples"):
        digits.load(Digits(source="digits", held_out=0.0001))
