"""How much of more GPUs a run can use: a model on paper, for numbers of nodes that nobody has tried.

It is the share of a step that is computation. The batch of each rank stays, so its computation ``C`` stays and the traffic ``T``
grows (weak scaling). A step takes ``max(C, T)`` where the traffic hides behind the computation and ``C + T`` where none of it
does; the efficiency is ``C`` over the one and over the other.

``C`` is the operations of a step over the part of the GPU's peak that training reaches: what the profile states, or 40 %, which
is assumed. MosaicML published 40 to 46 % for 1 to 13 B parameters on H100 in bf16 (llm-foundry,
scripts/train/benchmarking/README.md of July 2024).

``T`` is the time of all collectives that cross the border of a node, each by NCCL's own model of it, by which NCCL chooses among
its algorithms (NVIDIA/nccl 2.30.7, src/graph/tuning.cc, protocol Simple). With N ranks on n nodes, S bytes and the rate B of
a node's links, a call takes

- all-gather and reduce-scatter, by a ring: ``8.4 + (N - n) x 3.4 + (n - 1) x 14`` microseconds, and ``S (N - 1) / N / B``;
- all-reduce, by the faster of a ring, which is twice the steps and the bytes of the above, and a tree:
  ``8.4 + 2 ((N / n - 1) x 4 + log2(n) x 14)`` microseconds, and ``2 S / (0.92 B)``.

These microseconds are NVIDIA's, for NVLink in a node and one hop of a network between nodes. Nothing here was measured by us.
Traffic inside a node is neglected next to that between nodes. NVLS, CollNet and PAT, which need switches that reduce or one GPU a
node, are left out. What the model does not know: stragglers, other traffic on the fabric, congestion, the data.
"""

from __future__ import annotations

from math import log2
from typing import NamedTuple

from trainwright.cluster.model import Fabric, Gpu, NodePool
from trainwright.plan.estimate.communication import bytes_per_second, computed, step_operations
from trainwright.plan.model import BatchPlan
from trainwright.run import Trained
from trainwright_trainer.contract.estimate.computation import Computation
from trainwright_trainer.contract.estimate.traffic import Collective, collectives
from trainwright_trainer.contract.sharding import Sharding

PEAKS = {
    "A100": 312e12, "B200": 2250e12, "H100": 989e12, "H200": 989e12, "L4": 121e12, "L40S": 362e12, "MI300X": 1307e12,
    "V100": 125e12,
}
"""GPU -> dense 16-bit operations a second, from the vendors' data sheets (the SXM form where there are two)."""
UTILIZATION = 0.4
GPUS = (8, 64, 512, 4096)

BASE_SECONDS = 8.4e-6
RING_STEP_SECONDS, TREE_STEP_SECONDS = 3.4e-6, 4.0e-6
"""From GPU to GPU over NVLink."""
HOP_SECONDS = 14e-6
"""From node to node."""
TREE_RATE = 0.92
"""Of the links', that a tree reaches."""


class Efficiency(NamedTuple):
    """Efficiency of each GPU, compared with one node that only computes."""

    gpus: int
    low: float
    """Nothing overlaps."""
    high: float
    """Everything overlaps that can."""


class Scaling(NamedTuple):
    """The efficiency at several numbers of GPUs, and what it rests on that nobody stated."""

    efficiencies: tuple[Efficiency, ...]
    assumed: tuple[str, ...]
    """Short texts, one for each constant."""


def scaling(work: Trained, batch: BatchPlan, sharding: Sharding, pool: NodePool) -> Scaling | None:
    """At 8 to 4,096 GPUs; None where the GPU, the model or the length of a sample is not known, and in fp32, whose rate on a GPU
    depends on what the program lets its tensor cores round (torch.backends.cuda.matmul.allow_tf32, TensorFlow's own default).
    """
    operations = step_operations(computation := computed(work, batch))
    peak = None if pool.gpu is None else PEAKS.get(pool.gpu.model)
    if operations is None or computation is None or not computation.half or peak is None or pool.gpu is None:
        return None
    compute = operations / (peak * (pool.gpu.utilization or UTILIZATION))
    sizes = [gpus for gpus in GPUS if gpus % (sharding.shard_degree or 1) == 0]
    found = (_efficiency(compute, _traffic_seconds(computation, sharding, pool, gpus), gpus) for gpus in sizes)
    return Scaling(tuple(found), tuple(_assumed(pool.gpu, pool.fabric)))


def _assumed(gpu: Gpu, fabric: Fabric) -> list[str]:
    """What the profile does not state; the latencies no profile states."""
    texts = [] if gpu.utilization else [f"{100 * UTILIZATION:.0f} % of the GPU's peak"]
    if not {"links", "gigabits_per_link"} & fabric.model_fields_set:
        texts.append(f"{fabric.links} x {fabric.gigabits_per_link} Gb/s")
    return [*texts, "NCCL's own latencies"]


def _efficiency(compute: float, sent: float, gpus: int) -> Efficiency:
    return Efficiency(gpus, compute / (compute + sent), compute / max(compute, sent))


def _traffic_seconds(work: Computation, sharding: Sharding, pool: NodePool, gpus: int) -> float:
    per_node = pool.gpu.per_node if pool.gpu else 1
    if gpus <= per_node:
        return 0.0
    made, _ = collectives(work, sharding, gpus, per_node)
    return sum(collective_seconds(each, bytes_per_second(pool.fabric)) for each in made if each.nodes > 1)


def collective_seconds(made: Collective, rate: float) -> float:
    """Of all calls of one kind in a step, between nodes whose links carry ``rate`` bytes per second."""
    times = 2 if made.kind == "all-reduce" else 1
    between = times * (made.nodes - 1)
    steps = times * (made.ranks - 1) - between
    ring = made.calls * (BASE_SECONDS + steps * RING_STEP_SECONDS + between * HOP_SECONDS) + made.leaves_node / rate
    if made.kind != "all-reduce":
        return ring
    hops = 2 * ((made.neighbours - 1) * TREE_STEP_SECONDS + int(log2(made.nodes)) * HOP_SECONDS)
    return min(ring, made.calls * (BASE_SECONDS + hops) + 2 * made.groups * made.size / (TREE_RATE * rate))
