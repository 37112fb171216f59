"""From a run's ``data`` to its samples."""

from __future__ import annotations

from trainwright_trainer.contract.data import Data, Digits, PythonSource
from trainwright_trainer.data import digits, python_source
from trainwright_trainer.data.dataset import Dataset
from trainwright_trainer.failures import InvalidRunError


def load(data: Data) -> Dataset:
    """Read the data set into memory.

    Raises:
        DataError: It is missing.
        InvalidRunError: This trainer cannot read such a source.
    """
    match data:
        case Digits():
            return digits.load(data)
        case PythonSource():
            return python_source.load(data)
        case _:
            raise InvalidRunError(f"this trainer cannot read data source {data.source}")
