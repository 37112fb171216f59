"""HSDP: what groups of ranks that share one copy mean for memory, traffic and saves, and where they cannot be."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from tests.compiler.compiling import Data, compile_data
from tests.compiler.test_memory import CLUSTER, STATES, finetune

from trainwright.compile import CompiledRun
from trainwright.findings import CompileError
from trainwright.plan.model import CheckpointPlan, CommunicationPlan, MemoryPlan
from trainwright.report.plan import plan_rows
from trainwright_trainer.contract import Training

MODEL = {
    "architecture": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "max_position_embeddings": 4096,
}
GROUPS_OF_A_NODE: dict[str, Any] = {"fsdp2": {"shard_degree": 8}}


def run(accumulation: int = 4, **topology: Any) -> Data:
    data = finetune(MODEL, micro=1)
    data["batch"]["accumulation"] = accumulation
    data["topology"] = {"kind": "zero3", "engine": "fsdp2", "nodes": 4, "gpus_per_node": 8, **topology}
    return data


def compiled(accumulation: int = 4, **topology: Any) -> CompiledRun:
    return compile_data(CLUSTER, run(accumulation, **topology))


def memory(found: CompiledRun) -> MemoryPlan:
    assert found.plan.memory is not None
    return found.plan.memory


def traffic(found: CompiledRun) -> CommunicationPlan:
    assert found.plan.communication is not None
    return found.plan.communication


def checkpoint(found: CompiledRun) -> CheckpointPlan:
    assert found.plan.checkpoint is not None
    return found.plan.checkpoint


def parameters(found: CompiledRun) -> int:
    assert found.run.trainer is not None
    assert found.run.trainer.model.parameters is not None
    return found.run.trainer.model.parameters


def states(found: CompiledRun) -> float:
    return sum(part.low for part in memory(found).parts if part.name in STATES)


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_a_copy_is_shared_by_its_group_whatever_the_world(nodes: int) -> None:
    found = compiled(nodes=nodes, **GROUPS_OF_A_NODE)
    assert states(found) == pytest.approx(16 * parameters(found) / 8)
    assert states(compiled(nodes=nodes)) == pytest.approx(16 * parameters(found) / (8 * nodes))


def test_weights_stay_in_the_node_and_gradients_leave_it_once_a_step() -> None:
    found, whole = compiled(**GROUPS_OF_A_NODE), compiled()
    size = parameters(found)
    assert traffic(found).sent == pytest.approx(4 * 8 * size * 7 / 8 + 2 * 4 * size / 8 * 3 / 4)
    assert traffic(found).leaves_node == pytest.approx(2 * 4 * size * 3 / 4)  # eight rings, each with an eighth
    assert traffic(whole).sent == traffic(whole).leaves_node == pytest.approx(4 * 8 * size * 31 / 32)
    assert traffic(compiled(8, **GROUPS_OF_A_NODE)).leaves_node == traffic(found).leaves_node
    assert (traffic(found).seconds or 0) * 5 < (traffic(whole).seconds or 0)


def test_groups_of_several_nodes_gather_over_the_network() -> None:
    found = compiled(1, fsdp2={"shard_degree": 16})
    size = parameters(found)
    assert traffic(found).leaves_node == pytest.approx(8 * size * 15 / 16 + 8 * (2 * 4 * size / 16 / 2))


def test_sums_that_are_not_fp32_travel_for_each_micro_batch() -> None:
    data = run(4, **GROUPS_OF_A_NODE)
    data["workload"]["gradient_reduction"] = "bf16"
    found = compile_data(CLUSTER, data)
    assert traffic(found).leaves_node == pytest.approx(4 * 2 * 2 * parameters(found) * 3 / 4)


def test_one_group_of_all_ranks_is_what_no_group_is() -> None:
    one, none = compiled(fsdp2={"shard_degree": 32}), compiled()
    assert traffic(one)[:2] == traffic(none)[:2]
    assert states(one) == states(none)
    assert checkpoint(one).save_seconds == checkpoint(none).save_seconds


def test_each_shard_is_saved_by_one_group_and_groups_take_turns() -> None:
    """Eight shards over four nodes of eight ranks: two ranks of each node write."""
    found = compiled(**GROUPS_OF_A_NODE)
    assert checkpoint(found).size == checkpoint(compiled()).size
    assert checkpoint(found).save_seconds == checkpoint(compiled()).save_seconds
    host = memory(found).host
    assert host is not None
    [snapshot] = [part for part in host.parts if part.name == "snapshot"]
    assert snapshot.low == ceil(ceil(12 * parameters(found) / 8) * 2 / 8)
    many = compiled(nodes=16, **GROUPS_OF_A_NODE)
    assert checkpoint(many).save_seconds == pytest.approx((checkpoint(compiled(nodes=8)).save_seconds or 0), abs=0.1)


def test_the_specification_says_it_where_the_run_does() -> None:
    for groups, degree in ((dict[str, Any](), None), (GROUPS_OF_A_NODE, 8)):
        found = compiled(**groups)
        assert found.resolution.spec is not None
        work = found.resolution.spec.work
        assert isinstance(work, Training)
        assert work.fsdp2 is not None
        assert work.fsdp2.shard_degree == degree
        [payload] = [payload for payload in found.resolution.payloads if payload.key.endswith(".json")]
        assert ("shard_degree" in payload.text) == (degree is not None)


def test_the_plan_says_what_leaves_a_node() -> None:
    rows = dict(plan_rows(compiled(**GROUPS_OF_A_NODE)))
    assert rows["traffic"] == "194 GB a step and rank, 40.4 GB from node to node, 32.3 s at the links' full rate"
    assert compiled(**GROUPS_OF_A_NODE).plan.topology == "ZeRO-3 (FSDP2, shard groups of 8)"


@pytest.mark.parametrize(("topology", "message"), [
    ({"nodes": 3, "fsdp2": {"shard_degree": 16}}, "fsdp2.shard_degree 16 does not divide the 24 ranks of 3 x 8"),
    ({"fsdp2": {"shard_degree": 16}, "elastic": {"min_nodes": 2, "max_nodes": 4}},
     "fsdp2.shard_degree 16 does not divide the 8 ranks of a node, and elastic lets nodes come and go"),
    ({"fsdp2": {"shard_degree": 1}}, "1"),
])
def test_a_group_that_would_not_be_whole_is_refused(topology: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(**topology)
    [found] = caught.value.findings
    assert message in found.message + found.fix
    assert found.where.pointer.startswith("/topology")


def test_larger_groups_are_proposed_where_one_does_not_fit() -> None:
    data = run(1, fsdp2={"shard_degree": 2})
    of_13_b = {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40}
    data["workload"] |= {"model": MODEL | of_13_b, "activation_checkpointing": True}
    with pytest.raises(CompileError) as caught:
        compile_data(CLUSTER, data)
    [found] = [finding for finding in caught.value.findings if finding.code == "TW220"]
    assert found.fix.startswith("write `topology: {fsdp2: {shard_degree: 4}}`, which fits"), found.fix
