"""Blocks: found in order; recomputing and compiling them changes no gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from tests.trainer.model.recipes import LENGTH, RECIPES, Recipe, llama
from torch import nn

from trainwright_trainer.model.blocks import blocks, checkpoint_activations, compile_blocks

COUNTS = {
    "llama": ("LlamaDecoderLayer", 3), "llama, tied": ("LlamaDecoderLayer", 3), "bert, masked-lm": ("BertLayer", 3),
    "bert, text-classification": ("BertLayer", 3), "vit": ("ViTLayer", 2), "resnet": ("ResNetBasicLayer", 3),
    "gpt2": ("GPT2Block", 2),
}


def built(recipe: Recipe) -> nn.Module:
    torch.manual_seed(0)
    return recipe.build().train()


def two_steps(module: nn.Module, recipe: Recipe) -> None:
    """Gradients of two micro batches, in the order in which training makes them."""
    torch.manual_seed(1)
    for _ in range(2):
        if recipe.task == "image-classification":
            logits = module(pixel_values=torch.randn(4, 1, 8, 8)).logits
        else:
            logits = module(input_ids=torch.randint(0, 257, (4, LENGTH))).logits
        logits.square().mean().backward()


@pytest.mark.parametrize("name", RECIPES)
def test_blocks_in_forward_order(name: str) -> None:
    module = built(RECIPES[name])
    found = blocks(module)
    assert (type(found[0]).__name__, len(found)) == COUNTS[name]
    names = {part: path for path, part in module.named_modules()}
    assert [names[block] for block in found] == sorted(names[block] for block in found)


class Stack(nn.Module):
    """What nobody marked."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(3)])
        self.mixed = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])


def test_a_model_that_nobody_marked() -> None:
    stack = Stack()
    assert blocks(stack) == list(stack.layers)
    assert blocks(stack.first) == []


@pytest.mark.parametrize("name", RECIPES)
def test_recomputed_activations_change_nothing(name: str) -> None:
    recipe = RECIPES[name]
    plain, saving = built(recipe), built(recipe)
    checkpoint_activations(saving)
    two_steps(plain, recipe)
    two_steps(saving, recipe)
    assert [key for key, _ in saving.named_parameters()] == [key for key, _ in plain.named_parameters()]
    for (key, ours), theirs in zip(saving.named_parameters(), plain.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        assert ours.grad is None or theirs.grad is None or torch.equal(ours.grad, theirs.grad), key
    for (key, ours_buffer), theirs_buffer in zip(saving.named_buffers(), plain.buffers(), strict=True):
        assert torch.equal(ours_buffer, theirs_buffer), key  # batch norm took note of each batch once


def test_dropout_draws_the_same_numbers_again() -> None:
    keys: dict[str, Any] = RECIPES["vit"].model.model_dump() | {"dropout": 0.3}
    recipe = Recipe(type(RECIPES["vit"].model).model_validate(keys), RECIPES["vit"].task, RECIPES["vit"].data)
    plain, saving = built(recipe), built(recipe)
    checkpoint_activations(saving)
    two_steps(plain, recipe)
    two_steps(saving, recipe)
    pairs = zip(saving.parameters(), plain.parameters(), strict=True)
    assert all(ours.grad is None or theirs.grad is None or torch.equal(ours.grad, theirs.grad) for ours, theirs in pairs)


def kept_bytes(module: nn.Module) -> int:
    """Of activations that the backward pass waits for."""
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, nn.Parameter):
            kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        module(input_ids=torch.zeros(4, LENGTH, dtype=torch.int64)).logits.sum()
    return sum(kept.values())


def test_fewer_activations_are_kept() -> None:
    plain, saving = built(llama(num_hidden_layers=6)), built(llama(num_hidden_layers=6))
    checkpoint_activations(saving)
    assert kept_bytes(saving) < kept_bytes(plain) / 3


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("recomputed", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_compiled_blocks_compute_the_same(backend: str, recomputed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both backends get the same graphs; what is slow is a C++ compiler."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    recipe = llama(num_hidden_layers=2)
    plain, compiled = built(recipe), built(recipe)
    if recomputed:
        checkpoint_activations(compiled)
    compile_blocks(compiled)
    two_steps(plain, recipe)
    two_steps(compiled, recipe)
    assert [key for key, _ in compiled.named_parameters()] == [key for key, _ in plain.named_parameters()]
    for (key, ours), theirs in zip(compiled.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6, msg=key)
