"""A DeepSpeed configuration that a run brings along: batch, stage, keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.compiler.example import codes, findings, message, script

CONFIG = "/config/ds_config.json"
BATCH = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4}
ZERO3 = {"kind": "zero3", "engine": "deepspeed", "nodes": 4, "gpus_per_node": 8}


def brought(config: Any, topology: dict[str, Any] | None = None) -> dict[str, Any]:
    """A script on 32 GPUs with a configuration of its own."""
    return script("python", "train.py") | {"topology": topology or ZERO3, "files": {CONFIG: config}}


def configured(**keys: Any) -> dict[str, Any]:
    """A good configuration with some keys changed, None removes one."""
    whole = {**BATCH, "zero_optimization": {"stage": 3}, **keys}
    return brought({key: value for key, value in whole.items() if value is not None})


def said(**keys: Any) -> str:
    return message(configured(**keys)).partition(": ")[2]


def test_a_configuration_that_agrees_has_no_findings() -> None:
    assert codes(configured()) == []
    assert codes(configured(train_batch_size=128)) == []
    assert codes(brought("learning_rate = 3")) == []
    assert codes(brought({"any": "other", "train_batch_size": 1})) == []


def test_the_three_numbers_of_the_batch_agree_with_the_ranks() -> None:
    assert said(train_batch_size=64).startswith("train_batch_size 64 is not micro 1 x accumulation 4 x 32 ranks = 128; write 128")
    assert codes(configured(train_batch_size=100)) == ["TW222"]
    assert "does not divide" in said(train_batch_size=100, gradient_accumulation_steps=None)
    assert "does not divide" in said(train_batch_size=100, train_micro_batch_size_per_gpu=None)
    alone = {"train_micro_batch_size_per_gpu": None, "gradient_accumulation_steps": None}
    assert "does not divide" in said(train_batch_size=8, **alone)
    assert codes(configured(train_batch_size=64, **alone)) == ["TW223"]
    assert codes(configured(train_batch_size=128, gradient_accumulation_steps=None)) == []


def test_a_micro_batch_that_follows_the_nodes() -> None:
    """The tutorial's file: 128 = 1 x 4 x 32, with the 1 left out."""
    text = said(train_batch_size=128, train_micro_batch_size_per_gpu=None)
    assert text.startswith("train_batch_size 128 leaves each rank a micro batch of 1 on 4 nodes, and DeepSpeed fails on 5; ")
    assert codes(configured(train_batch_size=256, train_micro_batch_size_per_gpu=None)) == ["TW223"]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", []])
def test_numbers_of_the_batch_are_whole(value: Any) -> None:
    assert codes(configured(train_micro_batch_size_per_gpu=value)) == ["TW225"]


def test_a_batch_is_needed() -> None:
    assert codes(configured(train_micro_batch_size_per_gpu=None)) == ["TW225"]


@pytest.mark.parametrize(
    ("topology", "stage", "expected"),
    [
        (ZERO3, 3, []),
        (ZERO3, 2, ["TW222"]),
        (ZERO3, 0, ["TW222"]),
        (ZERO3, 4, ["TW225"]),
        (ZERO3, True, ["TW225"]),
        (ZERO3 | {"kind": "zero1"}, 1, []),
        (ZERO3 | {"engine": "fsdp2"}, 3, ["TW222"]),
        ({"kind": "ddp", "nodes": 4, "gpus_per_node": 8}, 3, ["TW222"]),
        ({"kind": "ddp", "nodes": 4, "gpus_per_node": 8}, 0, []),
    ],
)
def test_the_stage_is_the_topologys(topology: dict[str, Any], stage: Any, expected: list[str]) -> None:
    assert codes(brought({**BATCH, "zero_optimization": {"stage": stage}}, topology)) == expected


def test_keys_of_stage_3_in_another_stage() -> None:
    zero = {"stage": 2, "stage3_prefetch_bucket_size": 1, "offload_param": {"device": "cpu"}, "overlap_comm": True}
    topology = ZERO3 | {"kind": "zero2"}
    assert codes(brought({**BATCH, "zero_optimization": zero}, topology)) == ["TW227", "TW227"]
    assert codes(brought({**BATCH, "zero_optimization": {**zero, "stage": 3}})) == []


def test_misspelt_and_misplaced_keys() -> None:
    assert said(gradient_cliping=1.0) == "DeepSpeed does not know gradient_cliping; did you mean gradient_clipping?"
    assert said(overlap_comm=True) == "DeepSpeed does not know overlap_comm; move it into zero_optimization"
    assert said(zero_optimization={"stage": 3, "gradient_clipping": 1}) == (
        "DeepSpeed does not know zero_optimization.gradient_clipping; move it to the top level"
    )
    assert said(fp16={"enabled": True, "loss_scal": 0}).endswith("fp16.loss_scal; did you mean loss_scale?")
    assert said(zzzzz=1).endswith("does not know zzzzz; remove it")


def test_old_and_removed_keys() -> None:
    assert "write offload_optimizer: {device: cpu}" in said(zero_optimization={"stage": 3, "cpu_offload": True})
    assert "does not start with elasticity; write the three batch keys" in said(elasticity={"enabled": False})
    assert codes(configured(bfloat16={"enabled": True})) == ["TW227"]


@pytest.mark.parametrize("name", ["bf16", "bfloat16"])
def test_one_half_precision_at_a_time(name: str) -> None:
    assert "TW225" in codes(configured(fp16={"enabled": True}, **{name: {"enabled": True}}))
    assert "TW225" not in codes(configured(fp16={"enabled": False}, **{name: {"enabled": True}}))


def test_values_left_to_auto_are_one_finding() -> None:
    auto = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"), "auto")
    text = said(**auto, fp16={"enabled": "auto"})
    first = "train_micro_batch_size_per_gpu, gradient_accumulation_steps, train_batch_size"
    assert text.startswith(f"{first} and 1 more are auto, which only the Trainer of transformers fills in")
    assert codes(configured(data_types={"keep_in_fp32_modules": "auto"})) == []
    assert codes(configured(zero_optimization={"stage": "auto"})) == ["TW226"]


def test_a_text_is_read_as_json_and_found_at_its_own_line() -> None:
    (found,) = findings(brought(json.dumps({**BATCH, "zero_optimization": {"stage": 2}})))
    assert (found.code, found.where.pointer) == ("TW222", "/files/~1config~1ds_config.json/zero_optimization/stage")
    assert codes(brought("{zero_optimization: no JSON")) == []


@pytest.mark.parametrize("config", [{"zero_optimization": True}, {"zero_optimization": None}, {"zero_optimization": [1]}])
def test_blocks_of_another_form_crash_nothing(config: Any) -> None:
    codes(brought({**BATCH, **config, "fp16": 3, "bf16": [], "optimizer": "adam"}))
