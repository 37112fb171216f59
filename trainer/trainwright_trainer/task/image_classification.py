"""Image classification: one label for each image."""

from __future__ import annotations

import torch
from torch import nn

from trainwright_trainer.data.dataset import Split
from trainwright_trainer.data.order import PADDING, SampleIds
from trainwright_trainer.task.base import IGNORED, Batch, Measurement, sums


class ImageClassification:
    """Columns ``images`` ``(n, channels, height, width)`` and ``labels`` ``(n,)``; an item is an image."""

    def collate(self, split: Split, ids: SampleIds) -> Batch:
        labels = torch.from_numpy(split.columns["labels"][ids])
        return {
            "images": torch.from_numpy(split.columns["images"][ids]),
            "labels": labels.masked_fill(torch.from_numpy(ids == PADDING), IGNORED),
        }

    def items(self, batch: Batch) -> int:
        return int((batch["labels"] != IGNORED).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Measurement:
        return sums(model(pixel_values=batch["images"]).logits, batch["labels"])
