"""What the loop and the engines ask of a task, and what tasks share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from trainwright_trainer.data.dataset import IGNORED, Array, Split
from trainwright_trainer.data.order import Samples

Batch = Mapping[str, Tensor]

_ENCODER_ARGUMENTS = {"attention_mask": "attention_mask", "token_types": "token_type_ids"}
"""Column of the data -> argument of an encoder, under the name that ``transformers`` gives it."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Sums over the items (images or tokens) of a batch, as scalars on the model's device."""

    loss: Tensor
    """Sum of the items' losses, fp32, differentiable."""
    correct: Tensor
    """Items predicted right, counted only where no gradient is recorded: it costs a percent, and training does not read it."""


class Task(Protocol):
    """Turns samples into tensors, and a model's answer into sums."""

    @property
    def items_each(self) -> int | None:
        """Items of every sample, where all have equally many: no rank then needs to ask how many a step has."""

    def collate(self, split: Split, samples: Samples) -> Batch:
        """Tensors on the CPU for these samples; ``PADDING`` becomes a sample whose labels are ``IGNORED``."""

    def items(self, batch: Batch) -> int:
        """Items of the batch that count: images, or tokens to predict."""

    def measure(self, model: nn.Module, batch: Batch) -> Measurement:
        """One forward pass."""


def sums(logits: Tensor, labels: Tensor) -> Measurement:
    """Cross entropy summed over items, from logits ``(items, classes)`` and labels ``(items,)``.

    In fp32 whatever the logits are: the sum over a long vocabulary loses its tail in bf16.
    """
    loss = torch.nn.functional.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="sum")
    if loss.requires_grad:
        return Measurement(loss, labels.new_zeros(()))
    return Measurement(loss, (logits.argmax(dim=-1) == labels).sum())


def encoder_inputs(columns: Mapping[str, Array], tokens: Array) -> dict[str, Tensor]:
    """``input_ids`` from ``tokens`` ``(n, length)``, and those of the other columns that an encoder of text takes, all int64."""
    others = {argument: columns[name] for name, argument in _ENCODER_ARGUMENTS.items() if name in columns}
    return {name: torch.from_numpy(column.astype(np.int64)) for name, column in {"input_ids": tokens, **others}.items()}


def encoder_logits(model: nn.Module, batch: Batch) -> Tensor:
    """What an encoder of text answers to all of a batch but its labels."""
    logits: Tensor = model(**{name: tensor for name, tensor in batch.items() if name != "labels"}).logits
    return logits
