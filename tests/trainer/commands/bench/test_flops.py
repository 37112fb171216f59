"""The formula against torch's own count of a real forward and backward pass."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.trainer.contract.specifications import BERT, LLAMA, RESNET, changed
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from trainwright_trainer.commands.bench.run import known_peak, model_flops
from trainwright_trainer.contract import RunSpec, Training
from trainwright_trainer.data.load import load
from trainwright_trainer.data.order import DataOrder
from trainwright_trainer.model.build import build_model
from trainwright_trainer.training.assembly import build_task

VIT = {
    "architecture": "vit", "image_size": 8, "patch_size": 2, "num_channels": 1, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_labels": 10,
}
LENGTH = 64
TEXT = {"source": "python-stdlib", "sequence_length": LENGTH, "files": 10}
WIDE = {"hidden_size": 64, "intermediate_size": 128}
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("causal-lm", LLAMA | WIDE, TEXT),
    "llama, tied": ("causal-lm", LLAMA | WIDE | {"tie_word_embeddings": True}, TEXT),
    "bert": ("masked-lm", BERT | WIDE, TEXT),
    "vit": ("image-classification", VIT, {"source": "digits"}),
}


def training(task: str, model: dict[str, Any], data: dict[str, Any]) -> Training:
    changes = {"work.task": task, "work.model": model, "work.data": data, "work.precision": "fp32"}
    return TypeAdapter(Training).validate_python(RunSpec.model_validate(changed(changes)).work)


@pytest.mark.parametrize("name", RUNS)
def test_torch_counts_about_as_many(name: str) -> None:
    work = training(*RUNS[name])
    flops = model_flops(work)
    assert flops is not None
    module, task, dataset = build_model(work.model, work.task, work.data), build_task(work.task, work.data), load(work.data, 0)
    samples = DataOrder(0, len(dataset.train), dataset.fingerprint).batch(0, 4)
    # Written out as matrix products: the counter passes over the CPU's fused attention.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        task.measure(module, task.collate(dataset.train, samples)).loss.backward()  # type: ignore[no-untyped-call]
    units = 4 * (LENGTH if flops.unit == "token" else 1)
    # The formula takes norms and biases for matrix products, and the first layer's inputs for something that has a gradient.
    assert flops.each == pytest.approx(counter.get_total_flops() / units, rel=0.05)


def test_what_has_no_formula_has_none() -> None:
    assert model_flops(training("image-classification", RESNET, {"source": "digits"})) is None


def test_a_peak_is_of_half_precision_on_a_device_that_is_known() -> None:
    assert known_peak("NVIDIA H100 80GB HBM3", "bf16") == 989e12
    assert known_peak("NVIDIA H100 80GB HBM3", "fp32") is None
    assert known_peak("cpu", "bf16") is None
