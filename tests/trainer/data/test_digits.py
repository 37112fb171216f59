from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

from trainwright_trainer.contract.data import DIGITS_SAMPLES, Digits
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data import digits
from trainwright_trainer.data.dataset import Array, Split
from trainwright_trainer.data.order import Samples


def column(split: Split, name: str) -> Array:
    everything = np.arange(len(split))
    return split.read(Samples(everything, everything))[name]


def test_shapes_and_scale() -> None:
    data = digits.load(Digits(source="digits"))
    assert len(data.train) == Digits(source="digits").train_samples
    assert len(data.train) + len(data.held_out) == DIGITS_SAMPLES
    images = column(data.train, "images")
    assert images.shape[1:] == (1, 8, 8)
    assert images.dtype == np.float32
    assert (images.min(), images.max()) == (-1, 1)
    assert set(column(data.held_out, "labels")) == set(range(10))


def test_they_are_those_that_scikit_learn_reads() -> None:
    theirs = load_digits()
    expected = zip(theirs.images.astype(np.float32) / 8 - 1, theirs.target, strict=True)
    ours = digits.load(Digits(source="digits"))
    found = [
        (image.tobytes(), label) for split in (ours.train, ours.held_out)
        for image, label in zip(column(split, "images"), column(split, "labels"), strict=True)
    ]
    assert sorted(found) == sorted((image.tobytes(), label) for image, label in expected)


def test_split_is_fixed_and_disjoint() -> None:
    once, again = (digits.load(Digits(source="digits")) for _ in range(2))
    assert once.fingerprint == again.fingerprint
    assert np.array_equal(column(once.held_out, "images"), column(again.held_out, "images"))
    larger = digits.load(Digits(source="digits", held_out=0.5))
    assert larger.fingerprint != once.fingerprint
    assert np.array_equal(column(larger.held_out, "labels")[:len(once.held_out)], column(once.held_out, "labels"))


def test_split_without_samples() -> None:
    with pytest.raises(DataError, match="leaves one split empty"):
        digits.load(Digits(source="digits", held_out=0.0001))
