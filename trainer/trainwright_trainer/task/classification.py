"""Classification: one label for each image, for each text, or for each pair of texts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from trainwright_trainer.data.dataset import IGNORED, Array, Split
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.task.base import Batch, Measurement, encoder_inputs, encoder_logits, sums


class ImageClassification:
    """Columns ``images`` ``(n, channels, height, width)`` and ``labels`` ``(n,)``; an item is an image."""

    items_each = 1

    def collate(self, split: Split, samples: Samples) -> Batch:
        columns = split.read(samples)
        return {"images": torch.from_numpy(columns["images"]), "labels": _labels(columns, samples)}

    def items(self, batch: Batch) -> int:
        return int((batch["labels"] != IGNORED).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Measurement:
        return sums(model(pixel_values=batch["images"]).logits, batch["labels"])


class TextClassification:
    """Columns ``inputs`` and ``attention_mask`` ``(n, length)``, for pairs ``token_types``, and ``labels`` ``(n,)``.

    An item is a text.
    """

    items_each = 1

    def collate(self, split: Split, samples: Samples) -> Batch:
        columns = split.read(samples)
        return {**encoder_inputs(columns, columns["inputs"]), "labels": _labels(columns, samples)}

    def items(self, batch: Batch) -> int:
        return int((batch["labels"] != IGNORED).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Measurement:
        return sums(encoder_logits(model, batch), batch["labels"])


def _labels(columns: Mapping[str, Array], samples: Samples) -> Tensor:
    """One each; ``IGNORED`` where there is no sample."""
    return torch.from_numpy(columns["labels"]).masked_fill(torch.from_numpy(samples.ids == PADDING), IGNORED)
