"""Causal language model: predict each next token."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from trainwright_trainer.data.dataset import Split
from trainwright_trainer.data.order import PADDING, SampleIds
from trainwright_trainer.task.base import IGNORED, Batch, Measurement, sums


class CausalLanguageModel:
    """Columns ``inputs`` and ``targets`` ``(n, sequence_length)``; an item is a token to predict."""

    def collate(self, split: Split, ids: SampleIds) -> Batch:
        inputs, targets = (torch.from_numpy(split.columns[name][ids].astype(np.int64)) for name in ("inputs", "targets"))
        return {"inputs": inputs, "labels": targets.masked_fill(torch.from_numpy(ids == PADDING).unsqueeze(1), IGNORED)}

    def items(self, batch: Batch) -> int:
        return int((batch["labels"] != IGNORED).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Measurement:
        # The targets are shifted already, so the model's own `labels` argument, which would shift them again, is not used.
        logits = model(input_ids=batch["inputs"], use_cache=False).logits
        return sums(logits.flatten(0, 1), batch["labels"].flatten())
