"""Causal language model: predict each next token, without all of the logits in memory.

The logits of a micro batch have one number for each token and each word of the vocabulary: 8 sequences of 2,048 tokens and a
vocabulary of 128,256 make 8.4 GB in fp32, more than the rest of an 8B model's activations with recomputation. Their sum of losses
needs those of a few tokens at a time only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trainwright_trainer.data.dataset import IGNORED, Split
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.task.base import Batch, Measurement, sums

CHUNK_BYTES = 256 * 2**20
"""Logits in fp32 that are held at once. A micro batch with fewer has them all at once, which is a little faster."""
PLAIN_HEADS = frozenset({
    "GemmaForCausalLM", "GPT2LMHeadModel", "GPTNeoXForCausalLM", "LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM",
    "Olmo2ForCausalLM", "OlmoForCausalLM", "Phi3ForCausalLM", "Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM",
    "SmolLM3ForCausalLM", "Starcoder2ForCausalLM",
})
"""Models whose logits are a linear layer on the last hidden states, and nothing else. Others scale them, or bend them with a
tanh: they compute all logits at once."""


class CausalLanguageModel:
    """Columns ``inputs`` and ``targets`` ``(n, sequence_length)``; an item is a token to predict.

    The model answers with sums: see :func:`answer_with_sums`.

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


def answer_with_sums(module: nn.Module) -> None:
    """Let a causal language model take ``targets`` and answer with the sums that training needs.

    ``module(input_ids=…, targets=…)`` gives ``(loss, correct)``: the summed cross entropy in fp32 and the tokens predicted right.
    Without targets it answers as before. The module's own ``forward`` is replaced, and no method is added, because its call is
    all that DDP, ``fully_shard`` and DeepSpeed wrap: what a sum needs of the weights has to be read inside it.
    """
    model: Any = module
    original: Callable[..., Any] = module.forward
    plain = type(module).__name__ in PLAIN_HEADS

    @wraps(original)
    def forward(*args: Any, targets: Tensor | None = None, **inputs: Any) -> Any:
        if targets is None:
            return original(*args, **inputs)
        flat = targets.flatten()
        chunks = _chunks(len(flat), model.config.vocab_size) if plain else 1
        if chunks == 1:
            measured = sums(original(*args, **inputs, use_cache=False).logits.flatten(0, 1), flat)
            return measured.loss, measured.correct
        hidden = model.base_model(*args, **inputs, use_cache=False).last_hidden_state.flatten(0, 1)
        return _sums_by_chunk(model.get_output_embeddings(), hidden, flat, chunks)

    module.forward = forward


def _chunks(tokens: int, vocabulary: int) -> int:
    """The same on every rank: micro batches have one shape."""
    return max(1, -(-tokens * vocabulary * 4 // CHUNK_BYTES))


def _sums_by_chunk(head: nn.Module, hidden: Tensor, targets: Tensor, chunks: int) -> tuple[Tensor, Tensor]:
    """Sums over tokens, from ``hidden`` ``(tokens, width)`` and ``targets`` ``(tokens,)``. Logits are computed again in backward.

    The head is called as a module, so that what an engine hooks to it (ZeRO-3 gathers its weights there) takes effect.
    """

    def of_chunk(part: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        measured = sums(head(part), labels)
        return measured.loss, measured.correct

    parts = [
        cast("tuple[Tensor, Tensor]", checkpoint(of_chunk, part, labels, use_reentrant=False))
        for part, labels in zip(hidden.chunk(chunks), targets.chunk(chunks), strict=True)
    ]
    losses, corrects = zip(*parts, strict=True)
    return torch.stack(losses).sum(), torch.stack(corrects).sum()
