"""The memory estimate: its parts add up, it grows with what grows, and it refuses what cannot fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.compiling import compile_data

from trainwright.plan.estimate.communication import computed
from trainwright.run import Batch, TrainerWorkload
from trainwright.topology import ZeRO
from trainwright_trainer.contract.data import PythonSource
from trainwright_trainer.contract.estimate.computation import MemoryPart
from trainwright_trainer.contract.estimate.memory import RankMemory, training_memory
from trainwright_trainer.contract.model import Bert, Llama, ResNet, ViT
from trainwright_trainer.contract.sharding import Sharding
from trainwright_trainer.contract.training import SGD, AdamW

GIB = 2**30
STATES = ("weights", "gradients", "optimizer")
Shape = dict[str, Any]

LLAMA = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 128}
VIT = {"image_size": 8, "patch_size": 2, "num_channels": 1, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
       "num_attention_heads": 4, "num_labels": 10}
BERT = {"vocab_size": 257, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 128}
RESNET = {
    "num_channels": 1,
    "embedding_size": 16,
    "hidden_sizes": (16, 32),
    "depths": (1, 2),
    "layer_type": "basic",
    "image_size": 8,
    "num_labels": 10,
}


def workload(model: Shape, sequence: int = 64, **fields: Any) -> TrainerWorkload:
    if model["architecture"] in ("llama", "bert"):
        task = "causal-lm" if model["architecture"] == "llama" else "masked-lm"
        work = {"task": task, "data": {"source": "python-stdlib", "sequence_length": sequence}}
    else:
        work = {"task": "image-classification", "data": {"source": "digits"}}
    return TrainerWorkload.model_validate({"kind": "trainer", "model": model, "steps": 10, **work, **fields})


def estimate(work: TrainerWorkload, micro: int = 4, sharding: Sharding | None = None, accumulation: int = 1) -> RankMemory:
    computation = computed(work, Batch(micro=micro, accumulation=accumulation))
    assert computation is not None
    memory = training_memory(computation, sharding or Sharding(), "cuda")
    for part in (*memory.device, *memory.host):
        assert 0 <= part.low <= part.high, part
        assert part.formula
    return memory


def total(work: TrainerWorkload, micro: int = 4, sharding: Sharding | None = None) -> tuple[int, int]:
    parts = estimate(work, micro, sharding).device
    return sum(part.low for part in parts), sum(part.high for part in parts)


def zero(kind: str, engine: str = "deepspeed", nodes: int = 4, **fields: Any) -> ZeRO:
    return ZeRO.model_validate({"kind": kind, "engine": engine, "nodes": nodes, "gpus_per_node": 8, **fields})


def part_of(parts: tuple[MemoryPart, ...], name: str) -> tuple[int, int]:
    """Bounds of a part; nothing where it is not there."""
    return next(((part.low, part.high) for part in parts if part.name == name), (0, 0))


MODELS: dict[str, Shape] = {
    "llama": {"architecture": "llama", **LLAMA},
    "bert": {"architecture": "bert", **BERT},
    "vit": {"architecture": "vit", **VIT},
    "resnet": {"architecture": "resnet", **RESNET},
}
GROWING = [
    ("llama", "num_hidden_layers", (1, 2, 5)),
    ("llama", "hidden_size", (64, 128, 256)),
    ("llama", "intermediate_size", (64, 128, 1000)),
    ("llama", "vocab_size", (256, 1000, 32000)),
    ("llama", "num_key_value_heads", (1, 2, 4)),
    ("bert", "num_hidden_layers", (1, 2, 5)),
    ("bert", "hidden_size", (64, 128, 256)),
    ("bert", "intermediate_size", (64, 128, 1000)),
    ("bert", "vocab_size", (257, 1000, 32000)),
    ("vit", "num_hidden_layers", (1, 2, 5)),
    ("vit", "hidden_size", (64, 128, 256)),
    ("vit", "intermediate_size", (64, 128, 1000)),
    ("resnet", "embedding_size", (8, 16, 64)),
    ("resnet", "depths", ((1, 1), (1, 2), (3, 4))),
    ("resnet", "hidden_sizes", ((16, 32), (32, 64))),
]


@pytest.mark.parametrize(("name", "key", "values"), GROWING)
def test_a_larger_model_needs_more(name: str, key: str, values: tuple[Any, ...]) -> None:
    estimates = [total(workload({**MODELS[name], key: value})) for value in values]
    assert estimates == sorted(estimates)
    assert len(set(estimates)) == len(estimates)


@given(name=st.sampled_from(sorted(MODELS)), micro=st.integers(1, 10_000))
def test_a_larger_micro_batch_needs_more(name: str, micro: int) -> None:
    work = workload(MODELS[name])
    less, more = total(work, micro), total(work, micro + 1)
    assert less[0] < more[0]
    assert less[1] < more[1]


@given(sequence=st.integers(1, 127))
def test_longer_sequences_need_more(sequence: int) -> None:
    assert total(workload(MODELS["llama"], sequence))[0] < total(workload(MODELS["llama"], sequence + 1))[0]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_model_states_are_16_bytes_a_parameter_with_adam_12_with_momentum_8_without(name: str) -> None:
    for optimizer, bytes_each in (({"kind": "adamw"}, 16), ({"kind": "sgd"}, 12), ({"kind": "sgd", "momentum": 0}, 8)):
        work = workload(MODELS[name], optimizer=optimizer)
        states = sum(part.low for part in estimate(work).device if part.name in STATES)
        assert work.model.parameters is not None
        assert states == bytes_each * work.model.parameters


def test_half_precision_halves_activations_alone() -> None:
    def activations(precision: str) -> int:
        return part_of(estimate(workload(MODELS["llama"], precision=precision)).device, "activations")[0]

    assert activations("fp32") == 2 * activations("bf16") == 2 * activations("fp16")


def test_an_unknown_model_has_no_estimate_unless_it_states_its_size() -> None:
    unknown = {"architecture": "transformers", "model_type": "gpt2"}
    work = {"kind": "trainer", "task": "causal-lm", "data": {"source": "python-stdlib"}, "steps": 1}
    assert computed(TrainerWorkload.model_validate({**work, "model": unknown}), Batch(micro=1)) is None
    sized = TrainerWorkload.model_validate({**work, "model": {**unknown, "parameters": 10**9}})
    assert total(sized)[0] > 16 * 10**9
    assert part_of(estimate(sized, accumulation=1).device, "gradients") == (4 * 10**9, 4 * 10**9)
    assert part_of(estimate(sized, accumulation=2).device, "gradients") == (4 * 10**9, 8 * 10**9)  # some may take no part
    for engine in ("deepspeed", "fsdp2"):
        assert total(sized, sharding=zero("zero3", engine).sharding())[0] > 0


LLAMA_70B = {
    "architecture": "llama",
    "vocab_size": 128256,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}
CLUSTER: Shape = {
    "cluster": "h100", "kubernetes": "1.34",
    "node_pools": {"h100": {"cpus": 192, "memory": "2000Gi", "gpu": {"model": "H100", "memory": "80Gi", "per_node": 8}}},
    "namespaces": {"training": {"claims": {"checkpoints": {"managed": False, "write_mebibytes_per_second": 4000}}}},
}


def finetune(model: Shape, micro: int) -> Shape:
    return {
        "run": "llama-finetune",
        "team": "nlp",
        "namespace": "training",
        "cluster": "h100",
        "image": "registry.example.com/trainer:1",
        "topology": {"kind": "ddp", "nodes": 4, "gpus_per_node": 8},
        "batch": {"micro": micro, "accumulation": 8},
        "learning_rate": {"base": 2e-5},
        "mounts": {"/checkpoints": {"claim": "checkpoints"}},
        "workload": {
            "kind": "trainer",
            "task": "causal-lm",
            "model": model,
            "epochs": 3,
            "data": {"source": "python-stdlib", "tokenizer": "bpe", "vocabulary": 32000, "sequence_length": 4096},
        },
    }


def test_the_limit_is_the_gpu_or_a_ranks_share_of_the_pod() -> None:
    small = {
        **LLAMA_70B,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "vocab_size": 32000,
    }
    on_gpus = compile_data(CLUSTER, finetune(small, 1)).plan.memory
    assert on_gpus is not None
    assert on_gpus.limit == 80 * GIB
    run = finetune(small, 1) | {
        "topology": {"kind": "ddp", "nodes": 1, "gpus_per_node": 0, "processes_per_node": 4},
        "resources": {"memory": "64Gi"},
    }
    on_cpus = compile_data(CLUSTER, run).plan.memory
    assert on_cpus is not None
    assert on_cpus.limit == 16 * GIB


def test_contract_types_are_those_that_the_estimate_knows() -> None:
    """Each architecture and optimizer of the contract has a formula; a new one must not fall through in silence."""
    assert {type(workload(model).model) for model in MODELS.values()} == {Llama, Bert, ViT, ResNet}
    assert isinstance(workload(MODELS["llama"]).data, PythonSource)
    for kind, known in (("adamw", AdamW), ("sgd", SGD)):
        assert isinstance(workload(MODELS["vit"], optimizer={"kind": kind}).optimizer, known)


def test_activation_checkpointing_keeps_the_input_of_each_layer_and_one_layer() -> None:
    for name in MODELS:
        deep = {**MODELS[name], **({"depths": (20, 20)} if name == "resnet" else {"num_hidden_layers": 40})}
        all_kept = part_of(estimate(workload(deep)).device, "activations")
        inputs = part_of(estimate(workload(deep, activation_checkpointing=True)).device, "activations")
        assert inputs[0] < all_kept[0] / 2, name
        assert inputs[1] < all_kept[1], name
