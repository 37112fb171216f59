"""Held-out sequences of one long text: whole stretches of it, so that few of their neighbours are trained on."""

from __future__ import annotations

import numpy as np

from trainwright_trainer.data.order import SampleIds

STRETCHES = 64
"""The text is cut into so many equal stretches, and the end of each is held out: every part of it is evaluated on."""


class Portion:
    """One split of a numbered whole: from the split's ids to numbers in the whole."""

    def __init__(self, starts: SampleIds, numbers: SampleIds, size: int) -> None:
        self._starts, self._shifts, self._size = starts, numbers - starts, size

    def __len__(self) -> int:
        return self._size

    def numbers(self, ids: SampleIds) -> SampleIds:
        """Numbers in the whole, shape ``(n,)``. Ids are at least 0 and below the length."""
        return ids + self._shifts[np.searchsorted(self._starts, ids, side="right") - 1]


def divide(size: int, share: float) -> tuple[Portion, Portion]:
    """Cut ``size`` samples into those for training and ``round(size * share)`` held-out ones; either may be empty."""
    held_out = round(size * share)
    train = size - held_out
    # Fewer stretches than samples on either side, so that none is empty and the starts ascend.
    stretches = max(1, min(STRETCHES, held_out, train))
    cuts = np.arange(stretches + 1, dtype=np.int64)
    train_starts, held_out_starts = cuts * train // stretches, cuts * held_out // stretches
    return (
        Portion(train_starts[:-1], train_starts[:-1] + held_out_starts[:-1], train),
        Portion(held_out_starts[:-1], held_out_starts[:-1] + train_starts[1:], held_out),
    )
