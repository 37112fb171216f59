"""What a run's data holds, as far as this machine can tell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainwright_trainer.contract.data import DIGITS_SAMPLES, Digits, PythonSource
from trainwright_trainer.contract.training import Training


@dataclass(frozen=True, slots=True)
class DataSize:
    source: str
    train: int | None
    """Samples to learn from."""
    held_out: int | None
    sequence_length: int | None
    """Tokens of a sample; None for images."""
    how: str
    """Where the numbers come from, or why there are none."""


def data_size(training: Training) -> DataSize:
    """Counted where the data is on this machine, else as the specification states it.

    Raises:
        DataError: It is here, and is not what the specification says.
        StorageError: The volume failed.
    """
    data = training.data
    length = getattr(data, "sequence_length", None)
    if isinstance(data, Digits):
        return DataSize(data.source, data.train_samples, DIGITS_SAMPLES - data.train_samples, None, "part of scikit-learn")
    if not isinstance(data, PythonSource) and not Path(data.path).exists():
        return DataSize(data.source, data.train_samples, None, length, f"{data.path} is not on this machine")
    try:
        from trainwright_trainer.data.load import load

        dataset = load(data, training.seed, getattr(training.model, "vocab_size", None))
    except ModuleNotFoundError as error:
        return DataSize(data.source, data.train_samples, None, length, f"{error.name} is not installed, so not counted")
    return DataSize(data.source, len(dataset.train), len(dataset.held_out), length, "counted here")
