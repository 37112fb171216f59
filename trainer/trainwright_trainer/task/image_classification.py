"""Image classification: one label for each image."""

from __future__ import annotations

import torch
from torch import nn

from trainwright_trainer.data.dataset import Split
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.task.base import IGNORED, Batch, Measurement, sums


class ImageClassification:
    """Columns ``images`` ``(n, channels, height, width)`` and ``labels`` ``(n,)``; an item is an image."""

    items_each = 1

    def collate(self, split: Split, samples: Samples) -> Batch:
        columns = split.read(samples)
        labels = torch.from_numpy(columns["labels"]).masked_fill(torch.from_numpy(samples.ids == PADDING), IGNORED)
        return {"images": torch.from_numpy(columns["images"]), "labels": labels}

    def items(self, batch: Batch) -> int:
        return int((batch["labels"] != IGNORED).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Measurement:
        return sums(model(pixel_values=batch["images"]).logits, batch["labels"])
