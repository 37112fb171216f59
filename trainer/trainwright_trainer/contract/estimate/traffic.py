"""What each rank sends for one step of the optimizer.

A collective over N ranks moves (N - 1) / N of its data through each of them: a reduce-scatter and an all-gather once, an
all-reduce twice (Rajbhandari et al. 2020, arXiv:1910.02054, section 7). With P parameters, a step of A micro batches sends

- DDP: an all-reduce of gradients, 2 x 4 P in fp32, once (ranks add up gradients by themselves until the last micro batch);
- ZeRO-1: an all-reduce of gradients and an all-gather of new weights (DeepSpeed sums buckets of several ranks in one all-reduce
  instead of reducing to each rank, ``allreduce_and_scatter`` in deepspeed/runtime/zero/stage_1_and_2.py);
- ZeRO-2: the gradients for each of the A micro batches, since nobody keeps them whole, and new weights once;
- ZeRO-3: for each micro batch the weights twice, for the forward and the backward pass, and the gradients once: with A = 1 half
  as much again as DDP in the same precision. Weights that stay gathered are sent once.

- HSDP: the same as ZeRO-3 within each group of S ranks, and an all-reduce of 4 P / S between the N / S ranks that hold the same
  shard (Zhao et al. 2023, PyTorch FSDP, arXiv:2304.11277, section 3.2.2), once; for each micro batch where sums are not in fp32.

A ring crosses the border of each node once, so a node sends as much as one rank does. A group within a node
crosses none, and S rings between groups that are nodes cross it with 2 x 4 P together.
"""

from __future__ import annotations

from math import ceil, gcd
from typing import Literal, NamedTuple

from trainwright_trainer.contract.estimate.computation import Computation
from trainwright_trainer.contract.sharding import Layout, Sharding
from trainwright_trainer.contract.training import PRECISION_BYTES

BUCKET_BYTES = 25 * 2**20
"""Size of the buckets in which DDP sums gradients (``bucket_cap_mb``)."""


class Collective(NamedTuple):
    """One kind of collectives in a step, within groups of ranks that all make the same ones at the same time."""

    kind: Literal["all-reduce", "all-gather", "reduce-scatter"]
    size: int
    """Bytes of what one group reduces or gathers, in all of them together."""
    calls: int
    """How many there are."""
    ranks: int
    """Of one group."""
    neighbours: int
    """Of them in one node."""
    groups: int
    """With ranks in the same node, so that as many rings cross its border."""

    @property
    def sent(self) -> int:
        """Bytes that each rank sends in a ring."""
        return (2 if self.kind == "all-reduce" else 1) * self.size * (self.ranks - 1) // self.ranks

    @property
    def nodes(self) -> int:
        """Over which a group is spread."""
        return -(-self.ranks // self.neighbours)

    @property
    def leaves_node(self) -> int:
        """Bytes that a node sends to others."""
        return self.groups * self.sent if self.nodes > 1 else 0


def collectives(
    work: Computation, sharding: Sharding, ranks: int, per_node: int
) -> tuple[tuple[Collective, ...], str]:
    """What so many ranks make in one optimizer step, with the formula of its bytes."""
    parameters, size, steps = work.parameters, work.bytes, work.accumulation
    every = _Group(ranks, min(ranks, per_node), 1)
    if sharding.engine is None:
        gradients = PRECISION_BYTES[work.trained.gradient_reduction or "fp32"]
        buckets = ceil(4 * parameters / (4 * sharding.bucket or BUCKET_BYTES))
        formula = f"2 x {gradients} bytes x {parameters:,} gradients, reduced once"
        return (Collective("all-reduce", gradients * parameters, buckets, *every),), formula
    if sharding.engine == "fsdp2":
        return _fsdp2(work, sharding.reshards, sharding.at(ranks), per_node)
    gradients = PRECISION_BYTES[work.trained.gradient_reduction or work.trained.precision]
    if sharding.stage == 3:
        formula = f"{steps} x (2 x {size} bytes of weights + {gradients} of gradients) x {parameters:,}"
        return _sharded(work, 2 * steps, gradients, every), formula
    times, bucket = steps if sharding.stage == 2 else 1, sharding.bucket or parameters
    buckets = ceil(parameters / bucket)
    formula = f"({size} bytes of weights + {times} x 2 x {gradients} of gradients) x {parameters:,}"
    return (
        Collective("all-gather", size * parameters, buckets, *every),
        Collective("all-reduce", times * gradients * parameters, times * buckets, *every),
    ), formula


class _Group(NamedTuple):
    """As in :class:`Collective`."""

    ranks: int
    neighbours: int
    groups: int


def _sharded(work: Computation, gathers: int, gradients: int, group: _Group) -> tuple[Collective, ...]:
    """A block at a time; what is in none is counted as part of one."""
    steps, blocks = work.accumulation, work.blocks
    return (
        Collective("all-gather", gathers * work.bytes * work.parameters, gathers * blocks, *group),
        Collective("reduce-scatter", steps * gradients * work.parameters, steps * blocks, *group),
    )


def _fsdp2(work: Computation, reshards: bool, layout: Layout, per_node: int) -> tuple[tuple[Collective, ...], str]:
    """Within a group for each micro batch, and between groups once a step, where there are several."""
    parameters, steps, (replicas, shards) = work.parameters, work.accumulation, layout
    gradients, gathers = PRECISION_BYTES[work.trained.gradient_reduction or "fp32"], 2 if reshards else 1
    formula = f"{steps} x ({gathers} x {work.bytes} bytes of weights + {gradients} of gradients) x {parameters:,}"
    if replicas == 1:
        return _sharded(work, gathers * steps, gradients, _Group(shards, min(shards, per_node), 1)), formula
    times = 1 if gradients == 4 else steps  # sums of several micro batches need fp32
    here = gcd(shards, per_node)
    between = Collective(
        "all-reduce", times * gradients * ceil(parameters / shards), times * work.blocks, replicas, max(1, per_node // here), here
    )
    within = _sharded(work, gathers * steps, gradients, _Group(shards, here, per_node // here))
    summed = f"{times} x 2 x {gradients} bytes x {parameters:,} / {shards:,} gradients between {replicas:,} groups"
    return (*within, between), f"{formula} in groups of {shards:,}, and {summed}"
