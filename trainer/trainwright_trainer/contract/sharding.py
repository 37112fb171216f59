"""Which rank does what: how ranks share the model states and replicate each other, who writes them, and who reads samples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from trainwright_trainer.contract.base import MAX_INTEGER
from trainwright_trainer.contract.engine import FSDP2, DDPSettings
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.training import PRECISION_BYTES, Precision, Training

Stage = Literal[0, 1, 2, 3]


class Layout(NamedTuple):
    """The ranks of a run as a grid, numbered row by row: groups that replicate each other, of ranks that share one copy.

    Parallelism within a layer would be a third dimension, the innermost: its ranks read the same samples, and each holds its own
    part of every shard.
    """

    replicate: int = 1
    """Copies of the model states."""
    shard: int = 1
    """Ranks with consecutive numbers that share one copy."""

    @classmethod
    def over(cls, ranks: int, shard: int) -> Layout:
        """Raises :class:`ValueError` where a group would be torn."""
        replicate, torn = divmod(ranks, shard)
        if torn:
            raise ValueError(f"groups of {shard} ranks do not divide {ranks} ranks")
        return cls(replicate, shard)

    @property
    def readers(self) -> int:
        """Ranks that see samples of their own; gradients are a mean over them."""
        return self.replicate * self.shard

    def reader(self, rank: int) -> int:
        """Which of the readers a rank is: it takes the share of a step with this number."""
        return rank % self.readers

    def written(self, rank: int) -> int | None:
        """The shard that a rank writes, if it writes one. Groups take turns, so that the pods of all of them write."""
        replica, shard = divmod(rank, self.shard)
        return shard if shard % self.replicate == replica else None

    def writers(self, per_pod: int) -> Counter[int]:
        """Pod -> its ranks that write a shard, with so many ranks in a pod."""
        return _writers(self, per_pod)


@lru_cache(maxsize=256)
def _writers(layout: Layout, per_pod: int) -> Counter[int]:
    """The plan asks again for each change that it tries to make a run fit."""
    return Counter(rank // per_pod for rank in range(layout.readers) if layout.written(rank) is not None)


class Sharding(NamedTuple):
    """How the model states are spread over the ranks. Sizes are in elements (parameters), as DeepSpeed counts them."""

    ranks: int = 1
    """Of the run; of one whose nodes come and go the fewest, whose shares are the largest."""
    stage: Stage = 0
    """Of ZeRO: 3 shares weights, gradients and optimizer state, 2 the last two, 1 the last, 0 nothing."""
    engine: Literal["deepspeed", "fsdp2"] | None = None
    """What shards, and so decides the precision of each part; None where every rank holds everything."""
    shard_degree: int | None = None
    """Ranks of a group that shares one copy, where groups replicate each other (HSDP); None where all ranks share it."""
    offload_optimizer: bool = False
    """Whether master weights, optimizer state and their gradients lie in the host's memory, where the optimizer steps."""
    offload_weights: bool = False
    """Whether the shards of the weights lie in the host's memory too."""
    reshards: bool = True
    """Whether gathered weights are let go after the forward pass and gathered again for the backward pass."""
    accumulated_in: Precision | None = None
    """Type in which DeepSpeed adds up gradients; None leaves it to :meth:`accumulates`."""
    buckets: int = 0
    """Buffers in which DeepSpeed reduces gradients: two where one fills while the other travels."""
    bucket: int = 0
    """Size of one; of DDP, where it is stated."""
    persistent: int = 0
    """Weights of at most this many elements stay whole on every rank."""
    live: int = 0
    """Gathered weights that may be kept, or fetched ahead of their use."""
    sub_group: int = 0
    """Weights that the optimizer updates at a time."""

    @property
    def layout(self) -> Layout:
        """Of its ranks."""
        return self.at(self.ranks)

    def at(self, ranks: int) -> Layout:
        """At another number of ranks."""
        return Layout.over(ranks, self.shard_degree or (ranks if self.stage else 1))

    def share(self, stage: Stage) -> int:
        """Ranks that share what ZeRO shares from this stage on: 1 optimizer state, 2 gradients, 3 weights."""
        return self.layout.shard if self.stage >= stage else 1

    def accumulates(self, precision: Precision, accumulation: int) -> Precision:
        """Type in which gradients are added up: fp32 where more than one is added in bf16, whose 8 bits lose small ones."""
        if self.accumulated_in:
            return self.accumulated_in
        return "fp32" if precision == "bf16" and accumulation > 1 else precision


def of_training(work: Training, ranks: int, deepspeed: Mapping[str, Any] | None) -> Sharding | None:
    """As an engine is told; None where it is told by a configuration of DeepSpeed that is not here."""
    if work.engine == "deepspeed":
        return None if deepspeed is None else of_deepspeed(deepspeed, ranks)
    return of_fsdp2(work.fsdp2, ranks) if work.engine == "fsdp2" else of_ddp(work.ddp, ranks)


def of_ddp(settings: DDPSettings | None, ranks: int) -> Sharding:
    """Every rank holds everything, as under all engines without settings of their own."""
    megabytes = settings.bucket_cap_mb if settings else None
    return Sharding(ranks, bucket=(megabytes or 0) * 2**20 // 4)


def of_fsdp2(settings: FSDP2 | None, ranks: int) -> Sharding:
    """Everything is shared, by all ranks or within groups of them."""
    stated = settings or FSDP2()
    return Sharding(
        ranks, stage=3, engine="fsdp2", shard_degree=stated.shard_degree, offload_optimizer=stated.offload_weights,
        offload_weights=stated.offload_weights, reshards=stated.reshard_after_forward,
    )


def of_deepspeed(configuration: Mapping[str, Any], ranks: int) -> Sharding:
    """From DeepSpeed's configuration, which is complete as the compiler writes it: a size that is missing counts as 0.

    Raises:
        InvalidRunError: Something in it is of another kind than it must be.
    """
    zero = section(configuration, "zero_optimization")
    stage, accumulated = _stage(zero), section(configuration, "data_types").get("grad_accum_dtype")
    buffers = 2 if zero.get("overlap_comm") and stage < 3 else 1
    return Sharding(
        ranks, stage=stage, engine="deepspeed",
        offload_optimizer=_moves(zero, "offload_optimizer"),
        offload_weights=_moves(zero, "offload_param"),
        accumulated_in=accumulated if str(accumulated) in PRECISION_BYTES else None,
        buckets=buffers if zero.get("contiguous_gradients") else 0,
        bucket=_elements(zero, "reduce_bucket_size"),
        persistent=_elements(zero, "stage3_param_persistence_threshold"),
        live=_elements(zero, "stage3_max_live_parameters"),
        sub_group=_elements(zero, "sub_group_size"),
    )


def section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object within it; empty where it is left out or null. Raises :class:`InvalidRunError` for anything else."""
    found = document.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _wrong(name, found, "an object")
    return found


def _stage(zero: Mapping[str, Any]) -> Stage:
    stages: dict[Any, Stage] = {None: 0, 0: 0, 1: 1, 2: 2, 3: 3}
    stage = zero.get("stage")
    try:
        return stages[stage]
    except (KeyError, TypeError):
        raise _wrong("zero_optimization.stage", stage, "0, 1, 2 or 3") from None


def _elements(zero: Mapping[str, Any], name: str) -> int:
    number = zero.get(name) or 0
    if not isinstance(number, int | float) or not 0 <= number <= MAX_INTEGER:
        raise _wrong(f"zero_optimization.{name}", number, "a number of elements")
    return int(number)


def _moves(zero: Mapping[str, Any], part: str) -> bool:
    return (section(zero, part).get("device") or "none") != "none"


def _wrong(name: str, value: object, must: str) -> InvalidRunError:
    return InvalidRunError(f"{name} in DeepSpeed's configuration is {json.dumps(value)[:80]}; it must be {must}")
