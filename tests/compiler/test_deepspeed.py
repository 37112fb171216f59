"""DeepSpeed's configuration: complete, consistent with the plan, and explained line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.compiling import compile_data
from tests.compiler.test_memory import CLUSTER, LLAMA_70B, finetune

from trainwright.plan.deepspeed import SOURCES, plan_deepspeed
from trainwright.plan.model import BatchPlan
from trainwright.reading import validate_data
from trainwright.rules.program.deepspeed import BLOCKS, REMOVED, REPLACED, STAGE_3_KEYS
from trainwright.run import Run

Data = dict[str, Any]


def configuration(topology: Data, workload: Data | None = None, micro: int = 4, accumulation: int = 8) -> Data:
    """What is made of a run of 70 billion parameters on 32 GPUs."""
    data = finetune(LLAMA_70B, micro)
    data["topology"] |= {"engine": "deepspeed", **topology}
    data["workload"] |= workload or {}
    run = validate_data(Run, data, None, {})
    batch = BatchPlan(micro=micro, accumulation=accumulation, ranks=32, effective=micro * accumulation * 32)
    made = plan_deepspeed(run, batch)
    assert made is not None
    return made


def leaves(node: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, f"{pointer}/{key}")
    else:
        yield pointer, node


CONTIGUOUS_OFF = {"contiguous_gradients": False}
TOPOLOGIES: list[Data] = [
    {"kind": "zero1"},
    {"kind": "zero2", "offload": {"optimizer": "cpu"}},
    {"kind": "zero3"},
    {"kind": "zero3", "offload": {"optimizer": "cpu", "weights": "cpu"}},
]
WORKLOADS: list[Data] = [
    {}, {"precision": "fp32", "clip_norm": None}, {"precision": "fp16"}, {"optimizer": {"kind": "sgd"}},
]  # fmt: skip


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_line_has_a_reason_of_its_own_and_a_key_that_deepspeed_knows(topology: Data, workload: Data) -> None:
    made = configuration(topology, workload)
    for pointer, _ in leaves(made):
        assert pointer in SOURCES, pointer
        path, _, key = pointer[1:].rpartition("/")
        if path in BLOCKS:
            assert key in BLOCKS[path], pointer
    assert not {pointer[1:] for pointer, _ in leaves(made)} & {*REMOVED, *REPLACED}
    assert not STAGE_3_KEYS & set(made["zero_optimization"]) or topology["kind"] == "zero3"


def test_every_reason_belongs_to_a_key() -> None:
    made = [configuration(topology, workload) for topology in TOPOLOGIES for workload in WORKLOADS]
    made.append(configuration(TOPOLOGIES[1], {"optimizer": {"kind": "sgd"}}))
    used = {pointer for one in made for leaf, _ in leaves(one) for pointer in ancestors(leaf)}
    assert set(SOURCES) <= used
    assert all(reason and source.startswith(("run:/", "trainwright")) for source, reason in SOURCES.values())


def ancestors(pointer: str) -> Iterator[str]:
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


@given(micro=st.integers(1, 64), accumulation=st.integers(1, 64), kind=st.sampled_from(["zero1", "zero2", "zero3"]))
def test_the_batch_is_the_plans(micro: int, accumulation: int, kind: str) -> None:
    made = configuration({"kind": kind}, micro=micro, accumulation=accumulation)
    assert made["train_batch_size"] == micro * accumulation * 32
    assert made["train_batch_size"] == (
        made["train_micro_batch_size_per_gpu"] * made["gradient_accumulation_steps"] * 32
    )


def test_precision_decides_types_and_loss_scale() -> None:
    for precision, expected in (("fp32", (False, False)), ("bf16", (True, False)), ("fp16", (False, True))):
        made = configuration({"kind": "zero3"}, {"precision": precision})
        assert (made["bf16"]["enabled"], made["fp16"]["enabled"]) == expected
        assert made["communication_data_type"] == precision
        assert made["data_types"]["grad_accum_dtype"] == ("fp32" if precision == "bf16" else precision)
        assert made["fp16"].get("loss_scale") == (0 if precision == "fp16" else None)
    assert configuration({"kind": "zero3"}, {"gradient_reduction": "fp32"})["communication_data_type"] == "fp32"
    once = configuration({"kind": "zero3"}, {"precision": "bf16"}, accumulation=1)
    assert once["data_types"]["grad_accum_dtype"] == "bf16"


def test_knobs_reach_the_file_under_their_own_names() -> None:
    knobs = {
        "overlap_comm": False,
        "contiguous_gradients": False,
        "reduce_bucket_size": 1,
        "grad_accum_dtype": "bf16",
        "stage3_prefetch_bucket_size": 2,
        "stage3_param_persistence_threshold": 3,
        "stage3_max_live_parameters": 4,
        "stage3_max_reuse_distance": 5,
        "stage3_gather_16bit_weights_on_model_save": True,
        "sub_group_size": 6,
    }
    made = configuration({"kind": "zero3", "deepspeed": knobs})
    found = {pointer.rpartition("/")[2]: value for pointer, value in leaves(made)}
    assert {key: found[key] for key in knobs} == knobs
    two = configuration({"kind": "zero2", "deepspeed": {"allgather_bucket_size": 8}})
    assert two["zero_optimization"]["allgather_bucket_size"] == 8


def test_offload_is_said_where_it_is_asked_for() -> None:
    assert not {"offload_optimizer", "offload_param"} & set(configuration({"kind": "zero3"})["zero_optimization"])
    made = configuration(TOPOLOGIES[3])["zero_optimization"]
    assert made["offload_optimizer"] == made["offload_param"] == {"device": "cpu", "pin_memory": True}
    sgd = configuration(TOPOLOGIES[1], {"optimizer": {"kind": "sgd"}})
    assert (sgd["zero_allow_untested_optimizer"], sgd["zero_force_ds_cpu_optimizer"]) == (True, False)
    assert "zero_force_ds_cpu_optimizer" not in configuration(TOPOLOGIES[1])


def test_other_topologies_have_none() -> None:
    batch = BatchPlan(micro=4, accumulation=8, ranks=32, effective=1024)
    for topology in ({}, {"kind": "zero3", "engine": "fsdp2"}):
        data = finetune(LLAMA_70B, 4)
        data["topology"] |= topology
        assert plan_deepspeed(validate_data(Run, data, None, {}), batch) is None


def test_the_file_lies_beside_the_specification() -> None:
    data = finetune(LLAMA_70B, 1)
    data["topology"] |= {"kind": "zero3", "engine": "deepspeed"}
    data["workload"]["activation_checkpointing"] = True
    manifests = compile_data(CLUSTER, data).manifests
    (config_map,) = [manifest for manifest in manifests if manifest["kind"] == "ConfigMap"]
    assert '"stage": 3' in config_map["data"]["ds_config.json"]
    assert '"engine": "deepspeed"' in config_map["data"]["run.json"]


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ({"kind": "zero2", "engine": "fsdp2"}, "write kind: zero3, or engine: deepspeed"),
        ({"kind": "zero3", "engine": "fsdp2", "deepspeed": {}}, "engine fsdp2 does not read deepspeed; remove it"),
        ({"kind": "zero3", "engine": "deepspeed", "fsdp2": {}}, "engine deepspeed does not read fsdp2; remove it"),
        ({"kind": "zero2", "engine": "deepspeed", "deepspeed": {"sub_group_size": 5}}, "reads deepspeed.sub_group_size"),
        ({"kind": "zero2", "engine": "deepspeed", "offload": {"optimizer": "cpu", "weights": "cpu"}}, "which needs zero3"),
        ({"kind": "zero3", "engine": "deepspeed", "offload": {"weights": "cpu"}}, "add offload.optimizer: cpu"),
        ({"kind": "zero3", "engine": "fsdp2", "offload": {"optimizer": "cpu"}}, "moves weights and optimizer together"),
        (
            {"kind": "zero2", "engine": "deepspeed", "offload": {"optimizer": "cpu"}, "deepspeed": CONTIGUOUS_OFF},
            "always has contiguous gradients",
        ),
    ],
)
def test_a_topology_that_contradicts_itself_is_refused_with_the_key_to_change(topology: Data, words: str) -> None:
    data = finetune(LLAMA_70B, 4)
    data["topology"] |= topology
    with pytest.raises(ValueError, match=words):
        Run.model_validate(data)


def test_a_topology_survives_being_written_and_read() -> None:
    for topology in TOPOLOGIES:
        data = finetune(LLAMA_70B, 4)
        data["topology"] |= {"engine": "deepspeed", "deepspeed": {}, **topology}
        run = Run.model_validate(data)
        assert Run.model_validate(run.model_dump(mode="json")).topology == run.topology
