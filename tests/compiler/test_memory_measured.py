"""The estimate of what the backward pass needs, against what torch really keeps for it; and the tensors that sharding counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from tests.compiler.test_memory import BERT, LLAMA, RESNET, VIT, workload
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trainwright.plan.estimate.communication import computed
from trainwright.run import Batch, TrainerWorkload
from trainwright_trainer.contract.estimate.activations import activations
from trainwright_trainer.contract.estimate.computation import Computation, MemoryPart
from trainwright_trainer.contract.estimate.memory import training_memory
from trainwright_trainer.contract.model import Shaped
from trainwright_trainer.contract.sharding import Sharding
from trainwright_trainer.model.build import build_model
from trainwright_trainer.task.base import sums

MODELS: dict[str, dict[str, Any]] = {
    "llama": {"architecture": "llama", **LLAMA, "vocab_size": 1000, "hidden_size": 128, "num_key_value_heads": 2},
    "bert": {"architecture": "bert", **BERT, "vocab_size": 1000, "dropout": 0.0},
    "bert, dropout": {"architecture": "bert", **BERT, "vocab_size": 1000},
    "vit": {"architecture": "vit", **VIT},
    "resnet, basic blocks": {"architecture": "resnet", **RESNET},
    "resnet, bottlenecks": {"architecture": "resnet", **RESNET, "layer_type": "bottleneck", "hidden_sizes": (64, 128)},
}


def kept_bytes(work: TrainerWorkload, micro: int) -> int:
    """Bytes that one forward pass of the trainer's own module keeps for the backward pass, parameters apart."""
    torch.manual_seed(0)
    module = build_model(work.model, work.task, work.data).train()
    if work.activation_checkpointing:
        for blocks in (part for part in module.modules() if isinstance(part, torch.nn.ModuleList)):
            for block in blocks:
                block.forward = checkpointed(block.forward)
    parameters = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=work.precision == "bf16"),
    ):
        loss = loss_of(work, module, micro)
    assert loss.requires_grad
    return sum(tensor.untyped_storage().nbytes() for pointer, tensor in kept.items() if pointer not in parameters)


def computation_of(work: TrainerWorkload, micro: int) -> Computation:
    computation = computed(work, Batch(micro=micro))
    assert computation is not None
    return computation


def activations_of(work: TrainerWorkload, micro: int) -> MemoryPart:
    return activations(computation_of(work, micro), autocast=True)


def loss_of(work: TrainerWorkload, module: torch.nn.Module, micro: int) -> Tensor:
    if work.task == "image-classification":
        return sums(module(pixel_values=torch.randn(micro, 1, 8, 8)).logits, torch.zeros(micro, dtype=torch.long)).loss
    tokens = torch.randint(0, 256, (micro, 64))
    cache = {"use_cache": False} if work.task == "causal-lm" else {}
    return sums(module(input_ids=tokens, **cache).logits.flatten(0, 1), tokens.flatten()).loss


@pytest.mark.parametrize("name", MODELS)
def test_all_parameters_take_part(name: str) -> None:
    """So that DDP adds up their gradients in its own buckets, and the plan counts them once."""
    work = workload(MODELS[name])
    module = build_model(work.model, work.task, work.data).train()
    loss_of(work, module, micro=2).backward()  # type: ignore[no-untyped-call]
    assert [path for path, parameter in module.named_parameters() if parameter.grad is None] == []


def checkpointed(forward: Any) -> Any:
    """A block whose activations are computed again in the backward pass."""

    def call(*arguments: Any, **named: Any) -> Any:
        return checkpoint(forward, *arguments, use_reentrant=False, **named)

    return call


def logits_gradient(name: str, micro: int) -> int:
    """Bytes of it in fp32, of which the forward pass knows nothing."""
    return 4 * micro * 64 * 1000 if name.startswith(("llama", "bert")) else 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("micro", [8, 64])
@pytest.mark.parametrize("name", MODELS)
def test_what_torch_keeps_lies_in_the_interval(name: str, micro: int, precision: str) -> None:
    work = workload(MODELS[name], precision=precision)
    memory = training_memory(computation_of(work, micro), Sharding(), "cpu")
    parts = [part for part in memory.device if part.name in ("bf16 copies", "activations")]
    assert len(parts) == (2 if precision == "bf16" else 1)
    kept = kept_bytes(work, micro)
    low, high = sum(part.low for part in parts), sum(part.high for part in parts)
    assert low <= kept + logits_gradient(name, micro)
    assert kept <= high


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["llama", "vit"])
def test_what_torch_keeps_with_activation_checkpointing_lies_in_the_interval(name: str, precision: str) -> None:
    """The forward pass alone: neither the layer that is computed again nor the copies of its weights are among what it keeps."""
    model = {**MODELS[name], "num_hidden_layers": 12}
    work = workload(model, precision=precision, activation_checkpointing=True)
    estimate = activations_of(work, 64)
    kept = kept_bytes(work, 64)
    assert kept <= estimate.high
    assert estimate.low <= kept + logits_gradient(name, 64) + one_layer(work, 64)
    assert kept < kept_bytes(workload(model, precision=precision), 64) / 2


def one_layer(work: TrainerWorkload, micro: int) -> int:
    """What one layer keeps, by the difference that one more makes."""
    plain = work.model_copy(update={"activation_checkpointing": False})
    models = [work.model.model_copy(update={"num_hidden_layers": count}) for count in (1, 2)]
    less, more = (activations_of(plain.model_copy(update={"model": model}), micro).low for model in models)
    return more - less


@pytest.mark.parametrize("name", MODELS)
def test_the_tensors_are_those_of_the_module(name: str) -> None:
    work = workload(MODELS[name])
    assert isinstance(work.model, Shaped)
    known = work.model.layers
    counted: Counter[int] = Counter()
    for size, count in known.tensors:
        counted[size] += count
    module = build_model(work.model, work.task, work.data)
    assert counted == Counter(parameter.numel() for parameter in module.parameters())
