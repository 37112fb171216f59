"""What each replica of this worker sees: the same samples, in the same order, as the ranks of a torch engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.data.batch import StepShares
from trainwright_trainer.data.dataset import HeldOut, Split
from trainwright_trainer.data.order import PADDING, DataOrder, Samples, evaluation_slices
from trainwright_trainer.rank.place import Place

IGNORED = -1
"""Label that counts neither in the loss nor as an item."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro batch of one replica."""

    images: Array
    """float32 ``(n, height, width, channels)``."""
    labels: Array
    """int64 ``(n,)``, ``IGNORED`` where an evaluation batch is filled up."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches for the replicas of one worker.

    Args:
        place: The worker.
        replicas: Of each worker.
        micro: Samples of one batch.
    """

    place: Place
    replicas: int
    micro: int

    def step(self, split: Split, order: DataOrder, samples: int, shares: StepShares) -> list[list[Batch]]:
        """For each micro batch of a step, that of each replica."""
        batch = order.batch(samples, shares.samples)
        slices = [shares.slices(batch, number) for number in self._numbers]
        return [[_read(split, part) for part in micro] for micro in zip(*slices, strict=True)]

    def evaluation(self, split: HeldOut, most: int | None) -> Iterator[list[Batch]]:
        """For each batch of an evaluation, that of each replica; equally many on every worker."""
        slices = [evaluation_slices(len(split), number, self._world, self.micro)[:most] for number in self._numbers]
        for batch in zip(*slices, strict=True):
            yield [split.collated(_read, share) for share in batch]

    @property
    def _world(self) -> int:
        return self.place.world_size * self.replicas

    @property
    def _numbers(self) -> range:
        """Of this worker's replicas among all."""
        return range(self.place.rank * self.replicas, (self.place.rank + 1) * self.replicas)


def _read(split: Split, samples: Samples) -> Batch:
    columns = split.read(samples)
    images = np.ascontiguousarray(np.moveaxis(columns["images"], 1, -1), dtype=np.float32)
    labels = np.where(samples.ids == PADDING, IGNORED, columns["labels"]).astype(np.int64)
    return Batch(images, labels)
