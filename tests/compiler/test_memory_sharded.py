"""Memory where ranks share the model states: against the paper, DeepSpeed's own estimate, and the knobs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.compiling import compile_data
from tests.compiler.test_memory import CLUSTER, GIB, LLAMA_70B, MODELS, STATES, estimate, finetune, part_of, workload, zero

from trainwright.findings import CompileError
from trainwright.run import TrainerWorkload
from trainwright.topology import DDP
from trainwright_trainer.contract.estimate.computation import MemoryPart


def sized(parameters: int, precision: str = "bf16") -> TrainerWorkload:
    """Work of which only the number of parameters is known."""
    model = {"architecture": "transformers", "model_type": "gpt2", "parameters": parameters}
    work = {"kind": "trainer", "task": "causal-lm", "data": {"source": "python-stdlib"}, "steps": 1, "precision": precision}
    return TrainerWorkload.model_validate({**work, "model": model})


@pytest.mark.parametrize(("kind", "gigabytes"), [("zero1", 31.4), ("zero2", 16.6), ("zero3", 1.9)])
def test_model_states_are_those_of_the_paper(kind: str, gigabytes: float) -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5 billion parameters on 64 GPUs with Adam in mixed precision."""
    parts = estimate(sized(7_500_000_000), sharding=zero(kind, nodes=8).sharding()).device
    states = sum(part_of(parts, name)[1] for name in STATES)
    assert states / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_model_states_of_stage_3_are_those_of_deepspeed() -> None:
    """Its estimate_zero3_model_states_mem_needs counts 18 bytes a parameter, with fp32 gradients."""
    parts = estimate(sized(7_000_000_000), sharding=zero("zero3").sharding(), accumulation=2).device
    assert sum(part_of(parts, name)[0] for name in STATES) == 18 * 7_000_000_000 // 32


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_each_stage_shares_more(precision: str) -> None:
    work = sized(7_500_000_000, precision)
    stages = [zero(kind).sharding() for kind in ("zero1", "zero2", "zero3")]
    states = [sum(part_of(estimate(work, sharding=stage).device, name)[1] for name in STATES) for stage in stages]
    assert states == sorted(states, reverse=True)
    assert len(set(states)) == 3
    assert states[0] < sum(part_of(estimate(work).device, name)[1] for name in STATES)


@given(
    kind=st.sampled_from(["zero1", "zero2", "zero3"]),
    engine=st.sampled_from(["deepspeed", "fsdp2"]),
    nodes=st.integers(1, 100),
    precision=st.sampled_from(["fp32", "bf16", "fp16"]),
    accumulation=st.integers(1, 4),
    name=st.sampled_from(sorted(MODELS)),
)
def test_more_ranks_never_need_more(kind: str, engine: str, nodes: int, precision: str, accumulation: int, name: str) -> None:
    work = workload(MODELS[name], precision=precision)
    fewer, more = (
        estimate(work, sharding=zero("zero3" if engine == "fsdp2" else kind, engine, count).sharding(), accumulation=accumulation)
        for count in (nodes, nodes + 1)
    )
    assert sum(part.low for part in more.device) <= sum(part.low for part in fewer.device)
    assert sum(part.high for part in more.device) <= sum(part.high for part in fewer.device)


@pytest.mark.parametrize(("engine", "offload"), [
    ("deepspeed", {"optimizer": "cpu"}), ("deepspeed", {"optimizer": "cpu", "weights": "cpu"}),
    ("fsdp2", {"optimizer": "cpu", "weights": "cpu"}),
])  # fmt: skip
def test_offload_moves_parts_to_the_host(engine: str, offload: dict[str, str]) -> None:
    work = workload(MODELS["llama"])
    here = estimate(work, sharding=zero("zero3", engine).sharding())
    there = estimate(work, sharding=zero("zero3", engine, offload=offload).sharding())
    assert not here.host
    moved = {part.name for part in there.host}
    assert moved == ({"weights", "gradients", "optimizer"} if "weights" in offload else {"gradients", "optimizer"})
    assert moved.isdisjoint(part.name for part in there.device)
    for name in moved:
        assert part_of(there.host, name)[0] >= part_of(here.device, name)[0]


def test_the_host_is_checked_too() -> None:
    run = finetune(LLAMA_70B, 1)
    run["workload"]["activation_checkpointing"] = True
    run["topology"] |= {"kind": "zero3", "engine": "deepspeed", "offload": {"optimizer": "cpu", "weights": "cpu"}}
    memory = compile_data(CLUSTER, run).plan.memory
    assert memory is not None
    assert memory.host is not None
    assert memory.host.limit == 1800 * GIB // 8
    assert {part.name for part in memory.host.parts} == {*STATES, "framework", "shared memory"}
    with pytest.raises(CompileError) as caught:
        compile_data(CLUSTER, run | {"resources": {"memory": "256Gi"}})
    (found,) = [finding for finding in caught.value.findings if finding.code == "TW220"]
    assert "has 32.0 GiB (a rank's share of the pod's memory)" in found.message


def test_gathered_weights_stay_where_fsdp2_does_not_reshard() -> None:
    work = workload(MODELS["llama"])
    parameters = work.model.parameters
    assert parameters is not None
    kept = estimate(work, sharding=zero("zero3", "fsdp2", fsdp2={"reshard_after_forward": False}).sharding())
    assert part_of(kept.device, "gathered")[0] == 2 * parameters > part_of(
        estimate(work, sharding=zero("zero3", "fsdp2").sharding()).device, "gathered")[0]


def test_knobs_of_deepspeed_bound_what_is_gathered_and_reduced() -> None:
    work = TrainerWorkload.model_validate(finetune(LLAMA_70B, 4)["workload"])

    def parts(**knobs: Any) -> tuple[MemoryPart, ...]:
        return estimate(work, sharding=zero("zero3", deepspeed=knobs).sharding()).device

    table = 128256 * 8192
    assert part_of(parts(), "gathered")[1] == 2 * (10**9 + table + 161 * 8192)
    assert part_of(parts(stage3_max_live_parameters=1), "gathered") == (2 * (table + 161 * 8192), 2 * (table + 1 + 161 * 8192))
    assert part_of(parts(stage3_param_persistence_threshold=0), "gathered")[0] == 2 * table
    assert part_of(parts(reduce_bucket_size=10**9), "buffers")[0] - part_of(parts(), "buffers")[0] == 2 * 5 * 10**8
    assert part_of(parts(contiguous_gradients=False), "buffers")[0] == 2 * table


def test_accumulated_bf16_is_kept_in_fp32() -> None:
    for kind, once, more in (("zero1", 2, 6), ("zero2", 2, 4), ("zero3", 2, 4)):
        sharding = zero(kind).sharding()
        for accumulation, expected in ((1, once), (2, more)):
            parts = estimate(sized(3_200), sharding=sharding, accumulation=accumulation).device
            assert part_of(parts, "gradients")[1] == expected * (3_200 if kind == "zero1" else 100), (kind, accumulation)
    sharding = zero("zero3", deepspeed={"grad_accum_dtype": "bf16"}).sharding()
    assert part_of(estimate(sized(3_200), sharding=sharding, accumulation=2).device, "gradients")[1] == 2 * 100


def test_one_gpu_can_offload_alone() -> None:
    """ZeRO-Offload (Ren et al. 2021, arXiv:2101.06840): 13 billion parameters on one GPU of 32 GB."""
    topology = zero("zero3", nodes=1, gpus_per_node=1, offload={"optimizer": "cpu", "weights": "cpu"})
    memory = estimate(sized(13_000_000_000), sharding=topology.sharding())
    assert part_of(memory.device, "weights") == part_of(memory.device, "gradients") == (0, 0)
    assert sum(part.low for part in memory.device) < 32 * GIB
    assert {part.name for part in memory.host} == set(STATES)


def test_the_topologies_share_over_their_ranks() -> None:
    assert DDP.model_validate({"kind": "ddp", "nodes": 4, "gpus_per_node": 8}).sharding().stage == 0
    for stage in (1, 2, 3):
        topology = zero(f"zero{stage}")
        assert topology.sharding().stage == topology.stage == stage
        assert topology.title == f"ZeRO-{stage} (DeepSpeed)"
    assert zero("zero3", "fsdp2").title == "ZeRO-3 (FSDP2)"
