"""The trainer's estimate is the compiler's: a reviewer's plan and a pod's plan say the same bytes, part by part, and the same
steps.

The compiler has the model's configuration, and the trainer the model itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.compiler import example
from tests.compiler.compiling import TODAY, compile_data
from tests.compiler.projects import ROOT
from tests.compiler.test_memory import CLUSTER, finetune

from trainwright.compile import CompiledRun
from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources
from trainwright_trainer.commands.plan.plan import plan
from trainwright_trainer.contract.estimate.computation import MemoryPart
from trainwright_trainer.contract.layout import SPEC_FILE
from trainwright_trainer.contract.spec_file import read_specification

MODEL = {
    "architecture": "llama", "vocab_size": 32000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 4096,
}
HOST = {"offload": {"weights": "cpu", "optimizer": "cpu"}}
TOPOLOGIES: dict[str, dict[str, Any]] = {
    "ddp": {"kind": "ddp"},
    "ddp in larger buckets": {"kind": "ddp", "ddp": {"bucket_cap_mb": 100}},
    "ddp, elastic": {"kind": "ddp", "elastic": {"min_nodes": 2, "max_nodes": 4}},
    "fsdp2": {"kind": "zero3", "engine": "fsdp2"},
    "fsdp2 on the host": {"kind": "zero3", "engine": "fsdp2", **HOST},
    "fsdp2 in groups": {"kind": "zero3", "engine": "fsdp2", "fsdp2": {"shard_degree": 4, "reshard_after_forward": False}},
    "fsdp2, elastic": {"kind": "zero3", "engine": "fsdp2", "elastic": {"min_nodes": 2, "max_nodes": 4}},
    "zero1": {"kind": "zero1", "engine": "deepspeed"},
    "zero2": {"kind": "zero2", "engine": "deepspeed", "deepspeed": {"overlap_comm": False}},
    "zero2 on the host": {"kind": "zero2", "engine": "deepspeed", "offload": {"optimizer": "cpu"}},
    "zero3": {"kind": "zero3", "engine": "deepspeed", "deepspeed": {"sub_group_size": 1000}},
    "zero3 on the host": {"kind": "zero3", "engine": "deepspeed", **HOST},
}


def agree(compiled: CompiledRun, folder: Path) -> None:
    """What the files of a run's ConfigMap say to the trainer is what its plan says."""
    for payload in compiled.resolution.payloads:
        (folder / payload.key).write_text(payload.text, encoding="utf-8")
    read = read_specification(folder / SPEC_FILE)
    ours, theirs = plan(read.spec, read.path), compiled.plan
    assert ours.training is not None
    assert ours.training.memory is not None
    assert ours.checkpoints is not None
    assert theirs.memory is not None
    assert theirs.checkpoint is not None
    host = theirs.memory.host.parts if theirs.memory.host else ()
    assert by_name(ours.training.memory.device) == by_name(theirs.memory.parts)
    assert by_name(ours.training.memory.host) == by_name(tuple(part for part in host if part.name != "shared memory"))
    assert ours.training.sent == (theirs.communication.sent if theirs.communication else 0)
    assert ours.checkpoints.size == theirs.checkpoint.size
    assert theirs.duration is not None
    if theirs.duration.steps is not None:  # the pod may see data that the compiler does not
        assert ours.training.length.steps == theirs.duration.steps


def by_name(parts: tuple[MemoryPart, ...]) -> dict[str, MemoryPart]:
    return {part.name: part for part in parts}


def test_runs_in_dist(tmp_path: Path) -> None:
    compiled = [each.compiled for each in build_project(load_sources(Project(ROOT)), TODAY).runs.values()]
    ours = [each for each in compiled if each.run.trainer]
    assert ours
    for each in ours:
        folder = tmp_path / each.run.run
        folder.mkdir()
        agree(each, folder)


@pytest.mark.parametrize("optimizer", [{"kind": "adamw"}, {"kind": "sgd", "momentum": 0}], ids=str)
@pytest.mark.parametrize("accumulation", [1, 8])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_way_to_share_the_states(
    topology: str, precision: str, accumulation: int, optimizer: dict[str, Any], tmp_path: Path
) -> None:
    data = finetune(MODEL, micro=1)
    data["topology"] = {"nodes": 4, "gpus_per_node": 8, **TOPOLOGIES[topology]}
    data["target"] = "pytorch-job"
    data["batch"] = {"micro": 1, "accumulation": accumulation}
    data["workload"] |= {"precision": precision, "optimizer": optimizer, "data": {
        "source": "tokens", "path": "/data/tokens", "sequence_length": 4096, "vocabulary": 32000}, "epochs": None, "steps": 10}
    data["mounts"]["/data"] = {"claim": "checkpoints", "read_only": True}
    operators = {"training-operator": {"version": "1.9.3", "restricted_containers": True}}
    agree(compile_data({**CLUSTER, "operators": operators}, data), tmp_path)


def test_a_share_of_an_epoch(tmp_path: Path) -> None:
    """As a binary fraction, 1.1 of 50,000 are a sample more, and so a step."""
    images = {"source": "image-folder", "path": "/checkpoints/images", "image_size": 8, "channels": 1, "classes": 10}
    compiled = example.compiled({
        "topology": {"nodes": 1, "gpus_per_node": 2}, "batch": {"micro": 25},
        "workload": {"data": {**images, "samples": 50_000}, "epochs": 1.1},
    })
    duration = compiled.plan.duration
    assert duration is not None
    assert (duration.samples, duration.steps) == (55_000, 1_100)
    agree(compiled, tmp_path)
