"""The estimate of what the backward pass needs, against what torch really keeps for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.compiler.test_memory import LLAMA, RESNET, VIT, workload
from torch import Tensor

from trainwright.plan.memory import memory_parts
from trainwright.run import TrainerWorkload
from trainwright_trainer.model.build import build_model
from trainwright_trainer.task.base import sums

MODELS: dict[str, dict[str, Any]] = {
    "llama": {"architecture": "llama", **LLAMA, "vocab_size": 1000, "hidden_size": 128, "num_key_value_heads": 2},
    "vit": {"architecture": "vit", **VIT},
    "resnet, basic blocks": {"architecture": "resnet", **RESNET},
    "resnet, bottlenecks": {"architecture": "resnet", **RESNET, "layer_type": "bottleneck", "hidden_sizes": (64, 128)},
}


def kept_bytes(work: TrainerWorkload, micro: int) -> int:
    """Bytes that one forward pass of the trainer's own module keeps for the backward pass, parameters apart."""
    torch.manual_seed(0)
    module = build_model(work.model, work.task, work.data).train()
    parameters = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=work.precision == "bf16"),
    ):
        if work.task == "causal-lm":
            tokens = torch.randint(0, 256, (micro, 64))
            loss = sums(module(input_ids=tokens, use_cache=False).logits.flatten(0, 1), tokens.flatten()).loss
        else:
            loss = sums(module(pixel_values=torch.randn(micro, 1, 8, 8)).logits, torch.zeros(micro, dtype=torch.long)).loss
    assert loss.requires_grad
    return sum(tensor.untyped_storage().nbytes() for pointer, tensor in kept.items() if pointer not in parameters)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("micro", [8, 64])
@pytest.mark.parametrize("name", MODELS)
def test_what_torch_keeps_lies_in_the_interval(name: str, micro: int, precision: str) -> None:
    work = workload(MODELS[name], precision=precision)
    parts = [part for part in memory_parts(work, micro, "cpu") or () if part.name in ("bf16 copies", "activations")]
    assert len(parts) == (2 if precision == "bf16" else 1)
    kept = kept_bytes(work, micro)
    logits = 4 * micro * 64 * 1000 if name == "llama" else 0  # their gradient, of which the forward pass knows nothing
    low, high = sum(part.low for part in parts), sum(part.high for part in parts)
    assert low <= kept + logits
    assert kept <= high
