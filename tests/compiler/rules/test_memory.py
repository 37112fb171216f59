"""What fits, what is proposed where it does not, and what goes over the network."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler import example
from tests.compiler.findings.page import overlay

from trainwright.cluster.model import Fabric
from trainwright.plan.estimate.communication import communication, compute_seconds, computed
from trainwright.plan.model import BatchPlan, WorldPlan
from trainwright.run import TrainerWorkload
from trainwright.topology import DDP, ZeRO
from trainwright_trainer.contract.sharding import Sharding

FAST = {"namespaces": {"training": {"claims": {"checkpoints": {"size": "100Ti", "write_mebibytes_per_second": 20_000}}}}}
"""A claim on which no checkpoint is too large or too slow: that is another rule's."""


def codes(run: dict[str, Any], cluster: dict[str, Any] | None = None) -> list[str]:
    return example.codes(run, overlay(FAST, cluster or {}))


def message(run: dict[str, Any], cluster: dict[str, Any] | None = None) -> str:
    return example.message(run, overlay(FAST, cluster or {}))


def llama(hidden: int, layers: int, sequence: int = 2048) -> dict[str, Any]:
    model = {
        "architecture": "llama",
        "vocab_size": 32000,
        "hidden_size": hidden,
        "intermediate_size": 4 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    }
    data = {"source": "python-stdlib", "tokenizer": "bpe", "vocabulary": 32000, "sequence_length": sequence}
    return {"task": "causal-lm", "model": model, "data": data}


def zero(kind: str = "zero3", engine: str = "deepspeed", **size: int) -> dict[str, Any]:
    return {"kind": kind, "engine": engine, "nodes": 2, "gpus_per_node": 8, **size}



def test_memory_is_refused_only_where_the_lower_bound_does_not_fit() -> None:
    assert codes({"workload": llama(2048, 22), "batch": {"micro": 1}}) == []
    assert codes({"workload": llama(2048, 22), "batch": {"micro": 10}}) == ["TW221"]
    assert codes({"workload": llama(2048, 22), "batch": {"micro": 64}}) == ["TW220"]


def test_the_fix_is_the_smallest_change_that_fits() -> None:
    wide = {"workload": llama(2048, 22), "batch": {"micro": 64}}
    assert "; write `batch: {micro: 4, accumulation: 16}`, which fits: " in message(wide)
    deep = {"workload": llama(4096, 60), "batch": {"micro": 1}}
    assert "; write `topology: {kind: zero3, engine: deepspeed}`, which fits: " in message(deep)
    kept = {"workload": llama(2048, 88), "batch": {"micro": 1}, "topology": zero("zero1")}
    assert codes(kept) == []


@pytest.mark.parametrize("topology", [{"kind": "ddp"}, {"kind": "zero3", "engine": "deepspeed"}])
def test_one_rank_is_told_of_offload_and_of_more_nodes(topology: dict[str, Any]) -> None:
    """It has nobody to share with, so a higher stage is none of its changes."""
    one = {"topology": topology | {"nodes": 1, "gpus_per_node": 1}, "workload": llama(4096, 28), "batch": {"micro": 1}}
    large, *_ = example.findings(one, FAST)
    assert large.code == "TW220"
    assert "offload: {optimizer: cpu}}`, which fits: " in large.fix
    offload = {"topology": {**zero(nodes=1, gpus_per_node=1), "offload": {"optimizer": "cpu"}}}
    assert codes(one | offload) == []
    huge, *_ = example.findings(one | {"workload": llama(4096, 60)}, FAST)
    assert "nodes: 16}`, which fits: " in huge.fix


def test_what_the_topology_refuses_is_not_proposed() -> None:
    """Offloaded, DeepSpeed always has contiguous gradients."""
    topology = {**zero("zero1"), "deepspeed": {"contiguous_gradients": False}}
    deep = {"workload": llama(4096, 60), "batch": {"micro": 1}, "topology": topology}
    assert "; measure it; or write `topology: {kind: zero3}`, which fits: " in message(deep)


@pytest.mark.parametrize("stated", [{"workload": {"skip_non_finite": 5}}, {"checkpoints": {"save": "background"}}])
def test_an_engine_is_proposed_that_reads_what_is_stated(stated: dict[str, Any]) -> None:
    """DeepSpeed reads neither."""
    deep = overlay({"workload": llama(4096, 60), "batch": {"micro": 1}}, stated)
    assert "; write `topology: {kind: zero3, engine: fsdp2}`, which fits: " in message(deep)
    assert codes(deep | {"topology": zero("zero3", "fsdp2")}) == []


def test_a_setting_is_proposed_that_the_engine_reads() -> None:
    """TensorFlow computes no activations again."""
    vit = {
        "architecture": "vit", "image_size": 224, "patch_size": 16, "num_channels": 3, "hidden_size": 1024,
        "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096, "num_labels": 1000,
    }
    images = {"source": "image-folder", "path": "/checkpoints/imagenet", "image_size": 224, "classes": 1000}
    run = {
        "topology": {"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 8}, "target": "tf-job",
        "workload": {"model": vit, "data": images}, "batch": {"micro": 256},
    }
    cluster = {"operators": {"training-operator": {"version": "1.9"}}}
    assert "; measure it; or write `batch: {micro: 128, accumulation: 2}`, which fits: " in message(run, cluster)


def test_a_tight_run_is_told_what_would_surely_fit() -> None:
    text = message({"workload": llama(2048, 22), "batch": {"micro": 10}})
    assert "; measure it; or write `workload: {activation_checkpointing: true}`, which fits: " in text


def test_a_run_on_cpus_wants_memory_or_less_work() -> None:
    on_cpu = {"topology": {"nodes": 2, "gpus_per_node": 0}, "workload": llama(2048, 22), "batch": {"micro": 1}}
    assert "; write `resources: {memory: " in message(on_cpu)
    of_role = {**on_cpu, "resources": {"memory": "64Gi"}, "roles": {"node": {"resources": {"memory": "4Gi"}}}}
    assert "; write `roles: {node: {resources: {memory: " in message(of_role)
    small_node = {"node_pools": {"cpu": {"memory": "16Gi"}}}
    assert "take a smaller model, or raise resources.memory" in message(on_cpu, small_node)


TCP = {"node_pools": {"h100": {"fabric": {"kind": "tcp", "links": 1, "gigabits_per_link": 10, "resource": None}}}}


@pytest.mark.parametrize("engine", ["deepspeed", "fsdp2"])
def test_weights_over_a_slow_network(engine: str) -> None:
    run = {"workload": llama(4096, 30), "batch": {"micro": 1}, "topology": zero(engine=engine)}
    assert codes(run) == []
    text = message(run, TCP)
    assert "over TCP, " in text
    assert "at 1 x 10 Gb/s" in text
    assert codes(run, {"node_pools": {"h100": {"fabric": {"kind": "tcp", "links": 8, "gigabits_per_link": 400}}}}) == []
    assert codes({**run, "topology": zero(engine=engine, nodes=1)}, TCP) == []
    assert codes({"topology": zero(engine=engine)}, TCP) == []  # too small to notice


def test_one_rank_has_nothing_to_share() -> None:
    run = {"topology": zero(nodes=1, gpus_per_node=1)}
    assert codes(run) == ["TW229"]
    assert codes({"topology": zero(nodes=1, gpus_per_node=2)}) == []
    assert codes({"topology": {**zero(nodes=1, gpus_per_node=1), "offload": {"optimizer": "cpu"}}}) == []


def test_one_rank_that_others_join_has_something_to_share() -> None:
    elastic = {**zero(engine="fsdp2", nodes=1, gpus_per_node=1), "elastic": {"min_nodes": 1, "max_nodes": 4}}
    cluster = {"operators": {"training-operator": {"version": "1.9"}}, "namespaces": {"training": {"pod_security": "baseline"}}}
    assert codes({"topology": elastic, "target": "pytorch-job"}, cluster) == []
    elastic["elastic"] = {"min_nodes": 1, "max_nodes": 1}
    assert codes({"topology": elastic, "target": "pytorch-job"}, cluster) == ["TW229"]


def world(nodes: int) -> WorldPlan:
    return WorldPlan(
        nodes=nodes, processes_per_node=8, gpus_per_node=8, size=8 * nodes, device="cuda", pool="", pool_reason="", machine=""
    )


def sent(sharding: Sharding, accumulation: int = 1, precision: str = "bf16", nodes: int = 4, **fields: str) -> float:
    """Bytes for each parameter, as if there were infinitely many ranks."""
    workload = TrainerWorkload.model_validate({"kind": "trainer", "steps": 1, "precision": precision, **fields, **llama(1024, 2)})
    batch = BatchPlan(micro=1, accumulation=accumulation, ranks=8 * nodes, effective=8 * nodes * accumulation)
    plan = communication(computed(workload, batch), world(nodes), sharding, Fabric(links=8, gigabits_per_link=400))
    assert plan is not None
    assert plan.formula
    assert workload.model.parameters is not None
    if nodes > 1:
        assert plan.seconds == pytest.approx(plan.sent / 400e9)
    else:
        assert plan.seconds is None
    return plan.sent / workload.model.parameters * 8 * nodes / (8 * nodes - 1)


def of(kind: str, **fields: Any) -> Sharding:
    return ZeRO.model_validate({**zero(kind), **fields}).sharding()


def test_traffic_is_that_of_the_paper() -> None:
    """Rajbhandari et al. 2020, section 7: stage 3 sends 1.5 times an all-reduce. Stages 1 and 2 of DeepSpeed do all-reduce."""
    ddp = DDP.model_validate({"kind": "ddp", "nodes": 2, "gpus_per_node": 8}).sharding()
    assert sent(ddp) == sent(ddp, accumulation=4) == pytest.approx(8)
    assert sent(of("zero1")) == sent(of("zero2")) == pytest.approx(2 + 4)
    assert sent(of("zero3")) == pytest.approx(6)
    assert sent(of("zero3"), precision="fp32") == pytest.approx(1.5 * sent(ddp))


def test_traffic_grows_with_accumulation_where_nobody_keeps_the_whole() -> None:
    assert sent(of("zero1"), 4) == pytest.approx(2 + 4)
    assert sent(of("zero2"), 4) == pytest.approx(2 + 4 * 4)
    assert sent(of("zero3"), 4) == pytest.approx(4 * 6)
    assert sent(of("zero3", engine="fsdp2"), 4) == pytest.approx(4 * 8)
    assert sent(of("zero3", engine="fsdp2", fsdp2={"reshard_after_forward": False}), 4) == pytest.approx(4 * 6)
    assert sent(of("zero2"), 4, gradient_reduction="fp32") == pytest.approx(2 + 4 * 8)
    assert sent(Sharding(), gradient_reduction="bf16") == pytest.approx(4)
    assert sent(of("zero3"), nodes=1) == pytest.approx(6)


def test_computation_is_counted_in_tokens() -> None:
    plain = TrainerWorkload.model_validate({"kind": "trainer", "steps": 1, **llama(1024, 2)})
    batch = BatchPlan(micro=2, accumulation=3, ranks=1, effective=6)
    assert plain.model.parameters is not None
    seconds = 6 * plain.model.parameters * 2048 * 6 / 100e12
    assert compute_seconds(computed(plain, batch)) == pytest.approx(seconds)
    again = plain.model_copy(update={"activation_checkpointing": True})
    assert compute_seconds(computed(again, batch)) == pytest.approx(seconds * 8 / 6)
