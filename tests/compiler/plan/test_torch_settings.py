"""Settings of torch that a run states: where each of them goes, and that one which is not stated goes nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.compiling import Data, compile_data
from tests.compiler.test_memory import CLUSTER, LLAMA, finetune

from trainwright.compile import CompiledRun
from trainwright.findings import CompileError
from trainwright_trainer.contract import Training

NAMES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "PYTORCH_ALLOC_CONF")
RESNET: Data = {
    "task": "image-classification", "data": {"source": "digits"},
    "model": {"architecture": "resnet", "num_channels": 1, "image_size": 8, "num_labels": 10},
}


def asked(topology: Data | None = None, env: Data | None = None, **work: Any) -> Data:
    data = finetune({"architecture": "llama", **LLAMA, "vocab_size": 32000, "max_position_embeddings": 4096}, micro=1)
    data["workload"] |= work
    data["topology"] |= topology or {}
    return data | ({"env": env} if env else {})


def environment(found: CompiledRun) -> dict[str, str | None]:
    return {variable.name: variable.value for variable in found.plan.environment if variable.name in NAMES}


def training(found: CompiledRun) -> Training:
    assert found.resolution.spec is not None
    assert isinstance(found.resolution.spec.work, Training)
    return found.resolution.spec.work


def specification(found: CompiledRun) -> str:
    return found.resolution.payloads[0].text


def test_what_is_not_stated_goes_nowhere() -> None:
    found = compile_data(CLUSTER, asked())
    assert environment(found) == {}
    assert not any(f'"{key}":' in specification(found) for key in ("ddp", "deterministic", "cudnn_benchmark"))


@pytest.mark.parametrize(("work", "expected"), [
    ({"expandable_segments": True}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
    ({"compile": True, "compile_cache": "/checkpoints/compiled"}, {
        "TORCHINDUCTOR_CACHE_DIR": "/checkpoints/compiled/inductor", "TRITON_CACHE_DIR": "/checkpoints/compiled/triton",
    }),
])
def test_what_torch_reads_before_any_program_is_in_the_environment(work: Data, expected: Data) -> None:
    assert environment(compile_data(CLUSTER, asked(**work))) == expected


def test_the_runs_own_value_wins() -> None:
    own = "expandable_segments:True,max_split_size_mb:512"
    found = compile_data(CLUSTER, asked(env={"PYTORCH_ALLOC_CONF": own}, expandable_segments=True))
    assert environment(found) == {"PYTORCH_ALLOC_CONF": own}


def test_kernels_are_the_trainers() -> None:
    assert training(compile_data(CLUSTER, asked(deterministic=True))).deterministic is True
    assert training(compile_data(CLUSTER, asked(**RESNET, cudnn_benchmark=True))).cudnn_benchmark is True


def test_buckets_are_those_of_ddp() -> None:
    plain, larger = (compile_data(CLUSTER, asked({"ddp": ddp})) for ddp in (None, {"bucket_cap_mb": 100}))
    assert training(plain).ddp is None
    stated = training(larger).ddp
    assert stated is not None
    assert stated.bucket_cap_mb == 100
    assert plain.plan.communication == larger.plan.communication, "the bytes stay"


@pytest.mark.parametrize(("data", "code", "message"), [
    (asked(compile_cache="/checkpoints/x"), "TW107", "compile_cache is for what compile generates"),
    (asked(cudnn_benchmark=True), "TW107", "architecture llama has no convolutions for cudnn_benchmark to time"),
    (asked(**RESNET, cudnn_benchmark=True, deterministic=True), "TW107", "cudnn_benchmark picks kernels by a stopwatch"),
    (asked(compile=True, compile_cache="/elsewhere"), "TW248", "compile_cache /elsewhere is in no mount"),
    (asked({"kind": "zero3", "engine": "fsdp2", "ddp": {}}), "TW105", "kind ddp"),
])
def test_what_has_no_effect_or_no_place_is_refused(data: Data, code: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_data(CLUSTER, data)
    assert [found for found in caught.value.findings if found.code == code and message in found.message + found.fix], (
        caught.value.findings
    )


def test_cpus_have_no_segments() -> None:
    found = compile_data(CLUSTER, asked({"gpus_per_node": 0}, expandable_segments=True))
    assert environment(found) == {}
    assert [finding.where.pointer for finding in found.findings if finding.code == "TW207"] == ["/workload/expandable_segments"]
