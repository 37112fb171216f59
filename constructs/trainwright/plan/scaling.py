"""How much of more GPUs a run can use: the share of a step that is computation, at other numbers of nodes. A model on paper.

The batch of each rank stays, so its computation ``C`` stays and the traffic grows (weak scaling). With

- ``C`` = operations of a step / 40 % of the GPU's peak: MosaicML published 40 to 46 % for 1 to 13 B parameters on H100 in bf16
  (llm-foundry, scripts/train/benchmarking/README.md of July 2024);
- ``T`` = bytes that a rank sends (:mod:`communication`) at the full rate of its node's links, plus 2 x log2(nodes) hops for each
  collective, as a tree has them, of 10 microseconds each, which is assumed;

a step takes ``max(C, T)`` where the traffic hides behind the computation and ``C + T`` where none of it does. The efficiency is
``C`` over the one and over the other. Traffic inside of a node is neglected beside that between nodes. What the model does not
know: stragglers, other traffic on the fabric, congestion, the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainwright.cluster.model import NodePool
from trainwright.plan.communication import bytes_per_second, step_operations, traffic
from trainwright.plan.model import BatchPlan
from trainwright.run import TrainerWorkload
from trainwright.topology.sharding import Sharding

PEAKS = {
    "A100": 312e12, "B200": 2250e12, "H100": 989e12, "H200": 989e12, "L4": 121e12, "L40S": 362e12, "MI300X": 1307e12,
    "V100": 125e12,
}
"""GPU -> dense 16-bit operations a second, from the vendors' data sheets (the SXM form where there are two)."""
UTILIZATION = 0.4
HOP_SECONDS = 10e-6
BUCKET_BYTES = 25 * 2**20
"""In which DDP sums gradients (``bucket_cap_mb``)."""
GPUS = (8, 64, 512, 4096)


@dataclass(frozen=True)
class Efficiency:
    """Of each GPU, against one node that only computes."""

    gpus: int
    low: float
    """Nothing overlaps."""
    high: float
    """Everything overlaps that can."""


def scaling(work: TrainerWorkload, batch: BatchPlan, sharding: Sharding, pool: NodePool) -> tuple[Efficiency, ...] | None:
    """The efficiency at 8 to 4,096 GPUs; None where the GPU, the model or the length of a sample is not known."""
    operations = step_operations(work, batch)
    peak = None if pool.gpu is None else PEAKS.get(pool.gpu.model)
    if operations is None or peak is None or pool.gpu is None:
        return None
    compute, per_node = operations / (peak * UTILIZATION), pool.gpu.per_node
    seconds = {gpus: _traffic_seconds(work, batch, sharding, pool, gpus, gpus // per_node) for gpus in GPUS}
    return tuple(_efficiency(compute, sent, gpus) for gpus, sent in seconds.items())


def _efficiency(compute: float, sent: float, gpus: int) -> Efficiency:
    return Efficiency(gpus, compute / (compute + sent), compute / max(compute, sent))


def _traffic_seconds(
    work: TrainerWorkload, batch: BatchPlan, sharding: Sharding, pool: NodePool, gpus: int, nodes: int
) -> float:
    if nodes <= 1:
        return 0.0
    sent, _ = traffic(work, batch, gpus, sharding)
    hops = _collectives(work, batch, sharding) * 2 * math.ceil(math.log2(nodes))
    return sent / bytes_per_second(pool.fabric) + hops * HOP_SECONDS


def _collectives(work: TrainerWorkload, batch: BatchPlan, sharding: Sharding) -> int:
    """Of one step: a sharded block is gathered twice and reduced once for each micro batch, whole gradients travel in buckets."""
    if sharding.weights > 1:
        return 3 * batch.accumulation * getattr(work.model, "num_hidden_layers", 1)
    return math.ceil(4 * (work.model.parameters or 0) / BUCKET_BYTES)
