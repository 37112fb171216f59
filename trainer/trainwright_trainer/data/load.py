"""From a run's ``data`` to its samples."""

from __future__ import annotations

from trainwright_trainer.contract.data import Data, Digits
from trainwright_trainer.data import digits, python_source
from trainwright_trainer.data.dataset import Dataset


def load(data: Data) -> Dataset:
    """Read the data set into memory. Raises :class:`DataError` where it is missing."""
    return digits.load(data) if isinstance(data, Digits) else python_source.load(data)
