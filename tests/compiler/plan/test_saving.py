"""What a save and a start take of the host, as a rank counts it and as the trainer's own snapshot has it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.compiler.compiling import compile_data
from tests.compiler.test_memory import CLUSTER, GIB, MODELS, finetune, workload

from trainwright.findings import CompileError, Finding
from trainwright.plan.model import MemoryPlan
from trainwright_trainer.contract.estimate.memory import checkpoint_bytes
from trainwright_trainer.contract.model import Llama, Shaped
from trainwright_trainer.engine.update import Update, UpdateSettings
from trainwright_trainer.engine.whole_state import files
from trainwright_trainer.model.build import build_model
from trainwright_trainer.training.assembly import build_optimizer

Data = dict[str, Any]

ONE_BILLION: Data = {
    "architecture": "llama", "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
    "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 8192,
}  # fmt: skip
ON_CPUS: Data = {"kind": "ddp", "nodes": 2, "gpus_per_node": 0, "processes_per_node": 4}
FSDP2: Data = {"kind": "zero3", "engine": "fsdp2"}
OFFLOAD: Data = {"offload": {"optimizer": "cpu", "weights": "cpu"}}
BLOCKING: Data = {"checkpoints": {"save": "blocking"}}
P = Llama.model_validate(ONE_BILLION).parameters
LARGEST = 32000 * 2048


def run(topology: Data | None = None, **fields: Any) -> Data:
    asked = finetune(ONE_BILLION, 1)
    asked["topology"] = topology if topology and "nodes" in topology else asked["topology"] | (topology or {})
    return asked | {"resources": {"memory": "400Gi"}} | fields


def on_gpus(ranks: int) -> Data:
    return run({"kind": "ddp", "nodes": 2, "gpus_per_node": ranks})


def planned(asked: Data) -> MemoryPlan:
    memory = compile_data(CLUSTER, asked).plan.memory
    assert memory is not None
    return memory


def parts(asked: Data) -> dict[str, tuple[int, int]]:
    memory = planned(asked)
    return {part.name: (part.low, part.high) for part in (memory.host or memory).parts}


def test_whole_states_are_copied_by_rank_0_and_counted_to_its_pod() -> None:
    assert P is not None
    assert parts(run(ON_CPUS))["snapshot"] == (3 * P, 3 * P)
    assert "start" not in parts(run(ON_CPUS))
    assert parts(on_gpus(1))["snapshot"] == (12 * P, 24 * P)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_a_start_is_over_before_the_first_copy(ranks: int) -> None:
    """8 P is a checkpoint's largest file, on every rank. With two ranks in a pod it is not certain which takes more."""
    assert P is not None
    host, share = planned(on_gpus(ranks)).host, -(-12 * P // ranks)
    assert host is not None
    [larger] = [part for part in host.parts if part.name not in ("framework", "shared memory")]
    assert larger.name == {1: "snapshot", 2: "start or snapshot"}.get(ranks, "start")
    assert (larger.low, larger.high) == (max(8 * P, share), max(8 * P, 2 * share))
    if ranks > 2:
        assert host == planned(on_gpus(ranks) | BLOCKING).host, "a copy that is smaller than the start changes nothing"


def test_shards_are_copied_by_every_rank() -> None:
    assert P is not None
    share = -(-12 * P // 32)
    assert parts(run(FSDP2))["snapshot"] == (share, 2 * share)
    assert parts(run(FSDP2 | OFFLOAD))["snapshot"] == (share, share), "the host's own memory is not pinned"


def test_what_blocks_needs_no_copy() -> None:
    assert P is not None
    found = parts(run(**BLOCKING))
    assert "snapshot" not in found
    assert found["start"] == (8 * P, 8 * P)
    assert parts(run(FSDP2, **BLOCKING))["start"] == (4 * LARGEST, 4 * LARGEST)
    assert "snapshot" not in parts(run({"kind": "zero2", "engine": "deepspeed"}))
    assert "start" not in parts(run(FSDP2 | OFFLOAD)), "less than what is there later"


def refused(asked: Data, code: str) -> Finding:
    try:
        found = compile_data(CLUSTER, asked).findings
    except CompileError as error:
        found = error.findings
    (one,) = [finding for finding in found if finding.code == code]
    return one


def test_a_pod_that_cannot_hold_the_copy_is_refused() -> None:
    tight = run(FSDP2 | {"nodes": 1, "gpus_per_node": 1}, resources={"memory": "13Gi"})
    finding = refused(tight, "TW220")
    assert finding.where.pointer == "/resources/memory"
    assert "has 13.0 GiB (a rank's share of the pod's memory)" in finding.message
    assert finding.fix.startswith("write `checkpoints: {save: blocking}`, which fits: ")
    assert finding.fix.endswith(" on the host")
    assert planned(tight | BLOCKING).host is not None


def test_more_memory_is_proposed_where_a_node_has_it() -> None:
    finding = refused(run(**BLOCKING, resources={"memory": "64Gi"}), "TW220")
    assert finding.fix.startswith("write `resources: {memory: ")
    memory = finding.fix.split("memory: ")[1].split("}")[0]
    assert planned(run(**BLOCKING, resources={"memory": memory})).host is not None


def test_on_cpus_the_copy_counts_beside_the_rest() -> None:
    work = run(ON_CPUS, resources={"memory": "120Gi"})
    with_copy, without = planned(work), planned(work | BLOCKING)
    assert P is not None
    assert with_copy.low - without.low == 3 * P
    assert with_copy.limit == without.limit == 30 * GIB


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("optimizer", [{"kind": "adamw"}, {"kind": "sgd"}, {"kind": "sgd", "momentum": 0}])
def test_the_bytes_are_those_of_the_trainers_own_snapshot(name: str, optimizer: Data) -> None:
    """Beside counters and the buffers of batch norm, which are too small to count."""
    work = workload(MODELS[name], optimizer=optimizer)
    module = build_model(work.model, work.task, work.data)
    stepped = build_optimizer(work.optimizer, module, 1e-3)
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    stepped.step()
    tensors = [tensor for part in files(module, stepped, Update(stepped, UpdateSettings("fp32", None, 0))).values()
               for tensor in part.values()]
    states = sum(tensor.nbytes for tensor in tensors if tensor.numel() > 1)
    buffers = sum(buffer.nbytes for buffer in module.buffers() if buffer.numel() > 1)
    assert work.model.parameters is not None
    expected = checkpoint_bytes(work.model.parameters, work.optimizer)
    assert expected <= states <= expected + buffers
    assert isinstance(work.model, Shaped)
    known = work.model.layers
    assert known.largest == max(parameter.numel() for parameter in module.parameters())
