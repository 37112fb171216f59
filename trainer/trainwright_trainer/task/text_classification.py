"""Text classification: one label for each text, or for each pair of texts."""

from __future__ import annotations

import torch
from torch import nn

from trainwright_trainer.data.dataset import Split
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.task.base import IGNORED, Batch, Measurement, sums
from trainwright_trainer.task.encoder_inputs import encoder_inputs


class TextClassification:
    """Columns ``inputs`` and ``attention_mask`` ``(n, length)``, for pairs ``token_types``, and ``labels`` ``(n,)``.

    An item is a text.
    """

    items_each = 1

    def collate(self, split: Split, samples: Samples) -> Batch:
        columns = split.read(samples)
        labels = torch.from_numpy(columns["labels"]).masked_fill(torch.from_numpy(samples.ids == PADDING), IGNORED)
        return {**encoder_inputs(columns, columns["inputs"]), "labels": labels}

    def items(self, batch: Batch) -> int:
        return int((batch["labels"] != IGNORED).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Measurement:
        logits = model(**{name: tensor for name, tensor in batch.items() if name != "labels"}).logits
        return sums(logits, batch["labels"])
