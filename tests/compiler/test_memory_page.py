"""The table on the page about memory is what the code computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.compiler.test_memory import CLUSTER, GIB, LLAMA_70B, finetune

from trainwright.cluster import Cluster
from trainwright.plan.batch import plan_batch
from trainwright.plan.estimate.communication import communication, computed
from trainwright.plan.estimate.memory import plan_memory
from trainwright.plan.model import MemoryPlan
from trainwright.plan.pods import plan_world
from trainwright.plan.resources import plan_resources
from trainwright.reading import validate_data
from trainwright.run import Run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "memory.md"

OFFLOAD = {"optimizer": "cpu", "weights": "cpu"}
TOPOLOGIES: dict[str, dict[str, Any]] = {
    "DDP": {},
    "ZeRO-1 (DeepSpeed)": {"kind": "zero1", "engine": "deepspeed"},
    "ZeRO-2 (DeepSpeed)": {"kind": "zero2", "engine": "deepspeed"},
    "ZeRO-3 (DeepSpeed)": {"kind": "zero3", "engine": "deepspeed"},
    "…, optimizer on the host": {"kind": "zero3", "engine": "deepspeed", "offload": {"optimizer": "cpu"}},
    "…, weights too": {"kind": "zero3", "engine": "deepspeed", "offload": OFFLOAD},
    "ZeRO-3 (FSDP2)": {"kind": "zero3", "engine": "fsdp2"},
    "…, on the host": {"kind": "zero3", "engine": "fsdp2", "offload": OFFLOAD},
}
PARTS = ("weights", "bf16 copies", "gathered", "gradients", "optimizer", "buffers", "activations")


def test_the_table_is_what_the_code_computes() -> None:
    head = f"| topology | {' | '.join(PARTS)} | GPU, in all | host | sent in a step |\n|---|{'---|' * (len(PARTS) + 3)}"
    table = "\n".join([head, *(row(name, topology) for name, topology in TOPOLOGIES.items())])
    assert table in PAGE.read_text(encoding="utf-8"), f"docs/memory.md should hold:\n{table}"


def row(name: str, topology: dict[str, Any]) -> str:
    """GiB of one rank of a run of 70 billion parameters on 32 GPUs."""
    data = finetune(LLAMA_70B, 2)
    data["batch"]["accumulation"] = 16
    data["workload"]["activation_checkpointing"] = True
    data["topology"] |= topology
    run, cluster = validate_data(Run, data, None, {}), validate_data(Cluster, CLUSTER, None, {})
    needs, pool = run.topology.needs(), cluster.node_pools["h100"]
    world = plan_world(needs, cluster, "h100", "")
    memory, _ = plan_memory(run, world, plan_resources(run, pool, needs), pool)
    batch = plan_batch(run, needs)
    assert memory is not None
    assert batch is not None
    assert run.trainer is not None
    traffic = communication(computed(run.trainer, batch), world, run.topology.sharding(), pool.fabric)
    assert traffic is not None
    cells = [part(memory, name) for name in PARTS]
    host = interval(memory.host.low, memory.host.high) if memory.host else ""
    return f"| {name} | {' | '.join(cells)} | {interval(memory.low, memory.high)} | {host} | {traffic.sent / GIB:,.0f} |"


def part(memory: MemoryPlan, name: str) -> str:
    return next((interval(part.low, part.high) for part in memory.parts if part.name == name), "")


def interval(low: int, high: int) -> str:
    first, last = f"{low / GIB:,.1f}", f"{high / GIB:,.1f}"
    return first if first == last else f"{first} to {last}"
