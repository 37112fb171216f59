"""What the trainer asks of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Split:
    """Samples as columns: arrays that share their first dimension."""

    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True, slots=True)
class Dataset:
    """A training and a held-out split, and the digest of everything that decides what a sample id means."""

    train: Split
    held_out: Split
    fingerprint: str
