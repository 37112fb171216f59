"""Hand-written digits from scikit-learn."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import numpy as np

from trainwright_trainer.contract.data import DIGITS_CLASSES, DIGITS_IMAGE_SIZE, DIGITS_SAMPLES, Digits
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.dataset import Columns, Dataset
from trainwright_trainer.data.order import DataOrder

_FILE = Path("datasets", "data", "digits.csv.gz")
"""In scikit-learn's package: a line for each image, with its pixels and then its label."""
_INK = 16.0
"""The images hold 0 (paper) to 16 (ink)."""


def load(data: Digits) -> Dataset:
    """Columns ``images`` float32 ``(n, 1, 8, 8)`` in -1 to 1 and ``labels`` int64 ``(n,)``.

    The held-out share is the head of a fixed permutation, the same for every run.

    Raises:
        DataError: scikit-learn or its file is missing, or holds something else.
    """
    try:
        table = np.loadtxt(_package() / _FILE, delimiter=",", dtype=np.float32)
    except (ImportError, OSError, ValueError) as error:
        raise DataError(f"the digits of scikit-learn cannot be read: {error}") from error
    images = np.ascontiguousarray(table[:, :-1]).reshape(-1, 1, DIGITS_IMAGE_SIZE, DIGITS_IMAGE_SIZE)
    labels = table[:, -1].astype(np.int64)
    if len(images) != DIGITS_SAMPLES or len(np.unique(labels)) != DIGITS_CLASSES:
        raise DataError(f"scikit-learn's digits hold {len(images)} samples instead of {DIGITS_SAMPLES}")
    order = DataOrder(seed=0, size=len(images), fingerprint="digits split").batch(0, len(images)).ids
    train = order[len(images) - data.train_samples:]
    held_out = order[:len(images) - data.train_samples]
    if not len(held_out) or not len(train):
        raise DataError(f"data.held_out {data.held_out} of {len(images)} digits leaves one split empty; change it")
    digest = hashlib.sha256(f"digits v1:{data.held_out!r}".encode())
    digest.update(images.tobytes())
    digest.update(labels.tobytes())
    scaled = images / (_INK / 2) - 1
    return Dataset(
        Columns({"images": scaled[train], "labels": labels[train]}),
        Columns({"images": scaled[held_out], "labels": labels[held_out]}),
        digest.hexdigest(),
    )


def _package() -> Path:
    """Where scikit-learn is installed. To import it would take a second or two, in every rank, for one file."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise ImportError("scikit-learn is not installed")
    return Path(spec.origin).parent
