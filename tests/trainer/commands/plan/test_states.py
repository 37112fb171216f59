"""The trainer's count of model states is the compiler's: a reviewer's plan and a pod's plan say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.compiling import compile_data
from tests.compiler.test_memory import CLUSTER, STATES, finetune, part_of

from trainwright_trainer.commands.plan.plan import plan
from trainwright_trainer.contract import Training
from trainwright_trainer.contract.layout import DEEPSPEED_FILE, SPEC_FILE
from trainwright_trainer.rank.specification import read_specification

MODEL = {
    "architecture": "llama", "vocab_size": 32000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 4096,
}
TOPOLOGIES: dict[str, dict[str, Any]] = {
    "ddp": {"kind": "ddp"},
    "fsdp2": {"kind": "zero3", "engine": "fsdp2"},
    "fsdp2 on the host": {"kind": "zero3", "engine": "fsdp2", "offload": {"weights": "cpu", "optimizer": "cpu"}},
    "zero1": {"kind": "zero1", "engine": "deepspeed"},
    "zero2": {"kind": "zero2", "engine": "deepspeed"},
    "zero2 on the host": {"kind": "zero2", "engine": "deepspeed", "offload": {"optimizer": "cpu"}},
    "zero3": {"kind": "zero3", "engine": "deepspeed"},
    "zero3 on the host": {"kind": "zero3", "engine": "deepspeed", "offload": {"weights": "cpu", "optimizer": "cpu"}},
}


@pytest.mark.parametrize("optimizer", [{"kind": "adamw"}, {"kind": "sgd"}, {"kind": "sgd", "momentum": 0}], ids=str)
@pytest.mark.parametrize("accumulation", [1, 8])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_compiler_says_the_same(
    topology: str, precision: str, accumulation: int, optimizer: dict[str, Any], tmp_path: Path
) -> None:
    data = finetune(MODEL, micro=1)
    data["topology"] = {"nodes": 4, "gpus_per_node": 8, **TOPOLOGIES[topology]}
    data["batch"] = {"micro": 1, "accumulation": accumulation}
    data["workload"] |= {"precision": precision, "optimizer": optimizer, "data": {
        "source": "tokens", "path": "/data/tokens", "sequence_length": 4096, "vocabulary": 32000}, "epochs": None, "steps": 10}
    data["mounts"]["/data"] = {"claim": "checkpoints", "read_only": True}
    compiled = compile_data(CLUSTER, data)
    for payload in compiled.resolution.payloads:
        (tmp_path / payload.key).write_text(payload.text, encoding="utf-8")
    read = read_specification(tmp_path / SPEC_FILE)
    assert isinstance(read.spec.work, Training)

    ours, theirs = plan(read.spec, read.path), compiled.plan
    assert ours.training is not None
    assert ours.checkpoints is not None
    assert ours.training.states is not None
    assert theirs.memory is not None
    assert theirs.checkpoint is not None
    assert ours.checkpoints.size == theirs.checkpoint.size
    host = theirs.memory.host.parts if theirs.memory.host else ()
    for name in STATES:
        state = getattr(ours.training.states, name)
        low, high = part_of(theirs.memory.parts if state.where == "device" else host, name)
        assert state.low == low
        if state.where == "device":  # pinned memory is rounded up there
            assert state.high == high
    assert json.loads((tmp_path / SPEC_FILE).read_text())["world"]["nodes"] == ours.world.nodes
    assert (tmp_path / DEEPSPEED_FILE).exists() == (ours.training.engine == "deepspeed")
