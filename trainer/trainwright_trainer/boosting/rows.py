"""Rows: features and labels in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Features: TypeAlias = Any
"""float32 ``(n, columns)``: an array in which NaN is missing, or a sparse ``scipy.sparse.csr_matrix`` in which what is not stored
is missing."""
Labels = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table."""

    features: Features
    labels: Labels
    """Shape ``(n,)``."""
    names: tuple[str, ...] | None
    """Of the columns, where the format has names."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self.features[part], self.labels[part], self.names)


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of several files, in order; their columns are the same."""
    if len(parts) == 1:
        return parts[0]
    labels = np.concatenate([part.labels for part in parts])
    if parts[0].names is not None:
        return Rows(np.concatenate([part.features for part in parts]), labels, parts[0].names)
    from scipy import sparse  # type: ignore[import-untyped]

    width = max(part.features.shape[1] for part in parts)
    for part in parts:
        part.features.resize((part.features.shape[0], width))  # a file knows only the columns that occur in it
    return Rows(sparse.vstack([part.features for part in parts], format="csr"), labels, None)
