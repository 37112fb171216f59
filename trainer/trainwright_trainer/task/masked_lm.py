"""Masked language model: predict tokens that were hidden."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from trainwright_trainer.data.dataset import IGNORED, Array, Split
from trainwright_trainer.data.order import PADDING, Samples, uniforms
from trainwright_trainer.task.base import Batch, Measurement, encoder_inputs, encoder_logits, sums

CHOSEN = 0.15
"""Share of the tokens to predict (Devlin et al. 2019, arXiv:1810.04805, section 3.1)."""
MASKED, REPLACED = 0.8, 0.1
"""Of those: shown as the mask, and shown as any token. The rest are shown as they are."""

Flags = npt.NDArray[np.bool_]


class MaskedLanguageModel:
    """Columns ``inputs``, and where the text has them ``attention_mask``, ``special_tokens_mask`` and ``token_types``, all
    ``(n, length)``; an item is a chosen token.

    What is chosen, and what stands in its place, follows from the seed and the sample's position alone.

    Args:
        seed: The run's.
        mask_id: The token that stands for a hidden one.
        vocabulary: Replacements are drawn from the ids below it.
    """

    items_each = None

    def __init__(self, seed: int, mask_id: int, vocabulary: int) -> None:
        self._seed, self._mask_id, self._vocabulary = seed, mask_id, vocabulary

    def collate(self, split: Split, samples: Samples) -> Batch:
        columns = split.read(samples)
        tokens = columns["inputs"].astype(np.int64)
        length = tokens.shape[1]
        drawn = uniforms(self._seed, "mask", samples.positions, 3 * length).reshape(-1, 3, length)
        chosen = _choose(drawn[:, 0], _maskable(columns, samples))
        shown = np.where(chosen & (drawn[:, 1] < MASKED), self._mask_id, tokens)
        replaced = chosen & (drawn[:, 1] >= MASKED) & (drawn[:, 1] < MASKED + REPLACED)
        shown = np.where(replaced, (drawn[:, 2] * self._vocabulary).astype(np.int64), shown)
        return {**encoder_inputs(columns, shown), "labels": torch.from_numpy(np.where(chosen, tokens, IGNORED))}

    def items(self, batch: Batch) -> int:
        return int((batch["labels"] != IGNORED).sum())

    def measure(self, model: nn.Module, batch: Batch) -> Measurement:
        return sums(encoder_logits(model, batch).flatten(0, 1), batch["labels"].flatten())


def _maskable(columns: Mapping[str, Array], samples: Samples) -> Flags:
    """Tokens of text: no padding, no special tokens, nothing of a sample that is none."""
    maskable = np.repeat((samples.ids != PADDING)[:, np.newaxis], columns["inputs"].shape[1], axis=1)
    if "attention_mask" in columns:
        maskable &= columns["attention_mask"] == 1
    if "special_tokens_mask" in columns:
        maskable &= ~columns["special_tokens_mask"].astype(np.bool_)
    return maskable


def _choose(drawn: npt.NDArray[np.float64], maskable: Flags) -> Flags:
    """Each token by itself; the lowest draw of a sample where that is nobody, so that no batch has nothing to learn from."""
    drawn = np.where(maskable, drawn, np.inf)
    lowest = np.zeros_like(maskable)
    np.put_along_axis(lowest, drawn.argmin(axis=1, keepdims=True), True, axis=1)
    return maskable & ((drawn < CHOSEN) | lowest)
