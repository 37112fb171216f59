"""Causal language model: predict each next token."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from trainwright_trainer.data.dataset import Split
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.task.base import IGNORED, Batch, Measurement


class CausalLanguageModel:
    """Columns ``inputs`` and ``targets`` ``(n, sequence_length)``; an item is a token to predict.

    The model answers with sums: see :func:`token_sums.answer_with_sums`.

    Args:
        items_each: Tokens to predict in every sample; None where short samples are filled up.
    """

    def __init__(self, items_each: int | None = None) -> None:
        self.items_each = items_each

    def collate(self, split: Split, samples: Samples) -> Batch:
        columns = split.read(samples)
        inputs, targets = (torch.from_numpy(columns[name].astype(np.int64)) for name in ("inputs", "targets"))
        padding = torch.from_numpy(samples.ids == PADDING)
        return {"inputs": inputs, "labels": targets.masked_fill(padding.unsqueeze(1), IGNORED)}

    def items(self, batch: Batch) -> int:
        return int((batch["labels"] != IGNORED).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Measurement:
        # The targets are shifted already, so the model's own `labels` argument, which would shift them again, is not used.
        return Measurement(*model(input_ids=batch["inputs"], targets=batch["labels"]))
