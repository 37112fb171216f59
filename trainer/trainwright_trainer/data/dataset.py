"""What the trainer asks of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trainwright_trainer.data.order import Samples

Array = npt.NDArray[np.generic]

IGNORED = -100
"""Target that counts neither in the loss nor as an item: torch's own default for ``ignore_index``."""


class Split(Protocol):
    """Samples that are read by number. :meth:`read` is called from one thread at a time."""

    def __len__(self) -> int:
        """Samples; ids are below it."""

    def read(self, samples: Samples) -> Mapping[str, Array]:
        """Columns whose first dimension is ``len(samples)``. Where the id is ``PADDING`` they hold anything of the right shape.

        What is drawn at random (a crop, a flip) follows from the sample's position alone.

        Raises:
            DataError: A sample cannot be read, or holds what its source may not hold.
        """


@dataclass(frozen=True, slots=True)
class Columns:
    """A split in memory: arrays that share their first dimension."""

    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def read(self, samples: Samples) -> Mapping[str, Array]:
        """The rows of these ids; ``PADDING`` is a valid index, and reads the last one."""
        return {name: column[samples.ids] for name, column in self.columns.items()}


@dataclass(frozen=True, slots=True)
class Dataset:
    """A training and a held-out split, and the digest of everything that decides what a sample id means."""

    train: Split
    held_out: Split
    fingerprint: str
    vocabulary: int | None = None
    """Token ids are below it; None for images."""
