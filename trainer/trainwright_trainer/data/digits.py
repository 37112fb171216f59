"""Hand-written digits from scikit-learn."""

from __future__ import annotations

import hashlib

import numpy as np

from trainwright_trainer.contract.data import DIGITS_CLASSES, DIGITS_IMAGE_SIZE, DIGITS_SAMPLES, Digits
from trainwright_trainer.data.dataset import Dataset, Split
from trainwright_trainer.data.order import DataOrder
from trainwright_trainer.failures import DataError

_INK = 16.0
"""The images hold 0 (paper) to 16 (ink)."""


def load(data: Digits) -> Dataset:
    """Columns ``images`` float32 ``(n, 1, 8, 8)`` in -1 to 1 and ``labels`` int64 ``(n,)``.

    The held-out share is the head of a fixed permutation, the same for every run.

    Raises:
        DataError: scikit-learn or its file is missing, or holds something else.
    """
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]

        bunch = load_digits()
    except (ImportError, OSError) as error:
        raise DataError(f"the digits of scikit-learn cannot be read: {error}") from error
    images = np.ascontiguousarray(bunch.images, dtype=np.float32).reshape(-1, 1, DIGITS_IMAGE_SIZE, DIGITS_IMAGE_SIZE)
    labels = np.ascontiguousarray(bunch.target, dtype=np.int64)
    if len(images) != DIGITS_SAMPLES or len(np.unique(labels)) != DIGITS_CLASSES:
        raise DataError(f"scikit-learn's digits hold {len(images)} samples instead of {DIGITS_SAMPLES}")
    order = DataOrder(seed=0, size=len(images), fingerprint="digits split").batch_ids(0, len(images))
    train = order[len(images) - data.train_samples:]
    held_out = order[:len(images) - data.train_samples]
    if not len(held_out) or not len(train):
        raise DataError(f"data.held_out {data.held_out} of {len(images)} digits leaves a split without samples")
    digest = hashlib.sha256(f"digits v1:{data.held_out!r}".encode())
    digest.update(images.tobytes())
    digest.update(labels.tobytes())
    scaled = images / (_INK / 2) - 1
    return Dataset(
        Split({"images": scaled[train], "labels": labels[train]}),
        Split({"images": scaled[held_out], "labels": labels[held_out]}),
        digest.hexdigest(),
    )
