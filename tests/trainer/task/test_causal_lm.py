"""The loss of a chunk of tokens at a time is the loss of all of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.trainer.model.recipes import LENGTH, Recipe, llama, transformers
from torch import Tensor, nn

from trainwright_trainer.data.dataset import IGNORED
from trainwright_trainer.task import causal_lm
from trainwright_trainer.task.causal_lm import PLAIN_HEADS

DECODER: dict[str, Any] = {
    "vocab_size": 257, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
}
GROUPED = DECODER | {"num_key_value_heads": 2}
MODELS: dict[str, Recipe] = {
    "llama": llama(),
    "tied": llama(tie_word_embeddings=True),
    "gpt2": transformers(
        "gpt2", n_layer=2, n_head=2, n_embd=32, n_positions=64, vocab_size=257, bos_token_id=0, eos_token_id=0, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0,
    ),
    "gpt_neox": transformers("gpt_neox", **DECODER),
    **{kind: transformers(kind, **GROUPED) for kind in ("mistral", "qwen2", "qwen3", "phi3", "olmo", "olmo2", "smollm3")},
    "starcoder2": transformers("starcoder2", **GROUPED, residual_dropout=0.0, embedding_dropout=0.0),
    "gemma": transformers("gemma", **GROUPED, head_dim=8),
    "mixtral": transformers("mixtral", **GROUPED, num_local_experts=2),
    "qwen2_moe": transformers(
        "qwen2_moe", **GROUPED, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16, shared_expert_intermediate_size=16
    ),
}


def measured(recipe: Recipe) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(3)
    module = recipe.build().train()
    tokens = torch.randint(1, 257, (3, LENGTH + 1))
    targets = tokens[:, 1:].clone()
    targets[0, :5] = IGNORED
    loss, correct = module(input_ids=tokens[:, :-1], targets=targets)
    (loss / 64).backward()
    return module, loss.detach(), correct


@pytest.mark.parametrize("name", MODELS)
def test_chunks_sum_to_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, loss, correct = measured(MODELS[name])
    assert type(whole).__name__ in PLAIN_HEADS
    monkeypatch.setattr(causal_lm, "CHUNK_BYTES", 257 * 4 * 20)  # 20 tokens of 96
    chunked, chunked_loss, chunked_correct = measured(MODELS[name])
    assert chunked_loss.dtype == torch.float32
    torch.testing.assert_close(chunked_loss, loss, rtol=1e-6, atol=0)
    assert int(chunked_correct) == int(correct)
    for (key, ours), theirs in zip(chunked.named_parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-7, msg=key)


def test_every_plain_head_is_tried_above() -> None:
    assert {type(recipe.build()).__name__ for recipe in MODELS.values()} == PLAIN_HEADS


def test_logits_that_are_bent_afterwards_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = transformers("gemma2", **GROUPED, head_dim=8, final_logit_softcapping=0.01, query_pre_attn_scalar=8)
    _, loss, _ = measured(recipe)
    monkeypatch.setattr(causal_lm, "CHUNK_BYTES", 257 * 4 * 20)
    _, again, _ = measured(recipe)
    assert torch.equal(loss, again)


def largest_kept(module: nn.Module, tokens: Tensor) -> int:
    kept = [0]

    def note(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            kept.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        module(input_ids=tokens, targets=tokens)
    return max(kept)


def test_no_logits_wait_for_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    module, tokens = llama().build(), torch.zeros(4, LENGTH, dtype=torch.int64)
    logits = 4 * LENGTH * 257 * 4
    assert largest_kept(module, tokens) >= logits
    monkeypatch.setattr(causal_lm, "CHUNK_BYTES", logits // 4)
    assert largest_kept(module, tokens) < logits // 2


def test_without_targets_it_answers_as_before() -> None:
    module = llama().build()
    assert module(input_ids=torch.zeros(1, 4, dtype=torch.int64)).logits.shape == (1, 4, 257)
