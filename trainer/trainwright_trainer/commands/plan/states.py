"""Bytes of weights, gradients and optimizer state on one rank, as each engine keeps them.

Model states as in Rajbhandari et al. 2020 (ZeRO, arXiv:1910.02054, sections 3.1 and 5), and per engine: ddp, horovod and
tensorflow keep all of it on every rank, in fp32, as autocast does. fsdp2 keeps fp32 shards, of a group of ranks where the run
states one. DeepSpeed keeps weights in the compute precision beside fp32 master weights, which go with the optimizer, and shares
the parts that its stage says. What is kept for a moment only (activations, gathered weights, buckets, copies of autocast) is not
counted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainwright_trainer.commands.local.world import section
from trainwright_trainer.contract.engine import FSDP2
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.training import AdamW, Optimizer, Precision, Training

MemoryKind = Literal["device", "host"]

_BYTES: Mapping[str, int] = {"fp32": 4, "bf16": 2, "fp16": 2}
_STAGES = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class State:
    """One part of the model states, in bytes of one rank; an interval where it depends on what is going on."""

    low: int
    high: int
    where: MemoryKind = "device"


@dataclass(frozen=True, slots=True)
class States:
    """All that a rank keeps from step to step. The device is the GPU, or the process where there is none."""

    weights: State
    gradients: State
    optimizer: State


def optimizer_bytes(optimizer: Optimizer) -> int:
    """Bytes of optimizer state for each parameter, in fp32: two moments of AdamW, one momentum of SGD."""
    if isinstance(optimizer, AdamW):
        return 8
    return 4 if optimizer.momentum else 0


def checkpoint_bytes(training: Training, parameters: int) -> int:
    """One checkpoint, all ranks together: weights in fp32 and optimizer state. Buffers and random states are too small."""
    return (4 + optimizer_bytes(training.optimizer)) * parameters


def states(training: Training, parameters: int, ranks: int, deepspeed: dict[str, Any] | None) -> States:
    """What one of ``ranks`` keeps of a model of so many parameters.

    Args:
        deepspeed: DeepSpeed's configuration, for its engine.

    Raises:
        InvalidRunError: Something in that configuration is of another kind than it must be.
    """
    if training.engine == "deepspeed" and deepspeed is not None:
        return _deepspeed(training, parameters, ranks, deepspeed)
    where: MemoryKind = "host" if training.fsdp2 and training.fsdp2.offload_weights else "device"
    shared = (training.fsdp2 or FSDP2()).shards(ranks) if training.engine == "fsdp2" else 1
    return States(*(_each(size, parameters, shared, where) for size in (4, 4, optimizer_bytes(training.optimizer))))


def _deepspeed(training: Training, parameters: int, ranks: int, config: dict[str, Any]) -> States:
    zero = section(config, "zero_optimization")
    stage, size = _stage(zero), _BYTES[training.precision]
    master = 4 if size == 2 or stage < 3 else 0  # stage 3 in fp32 steps the shards themselves
    optimizer = master + optimizer_bytes(training.optimizer)
    weights_where = _where(zero, "offload_param")
    optimizer_where = _where(zero, "offload_optimizer")
    if optimizer_where == "host":
        optimizer += 4  # gradients in fp32, for the step there
    gradients_where: MemoryKind = optimizer_where if stage >= 2 else "device"
    return States(
        _each(size, parameters, ranks if stage == 3 else 1, weights_where),
        _deepspeed_gradients(training, parameters, ranks, stage, _sums(training.precision, config), gradients_where),
        _each(optimizer, parameters, ranks if stage >= 1 else 1, optimizer_where),
    )


def _deepspeed_gradients(training: Training, parameters: int, ranks: int, stage: int, sums: int, where: MemoryKind) -> State:
    """Stage 1 keeps whole gradients until the step, beside fp32 sums where those are asked for."""
    size = _BYTES[training.precision]
    if stage >= 2:
        return _each(sums, parameters, ranks, where)
    if stage == 1 and training.batch.accumulation == 1 and sums == size:
        return State(-(-size * parameters // ranks), size * parameters, where)
    return _each(size + (sums if sums != size else 0), parameters, 1, where)


def _stage(zero: dict[str, Any]) -> int:
    stage = zero.get("stage") or 0
    if stage not in _STAGES:
        raise InvalidRunError(f"zero_optimization.stage in DeepSpeed's configuration is {stage!r}; it must be 0, 1, 2 or 3")
    return int(stage)


def _sums(precision: Precision, config: dict[str, Any]) -> int:
    return _BYTES.get(str(section(config, "data_types").get("grad_accum_dtype")), _BYTES[precision])


def _where(zero: dict[str, Any], part: str) -> MemoryKind:
    return "host" if (section(zero, part).get("device") or "none") != "none" else "device"


def _each(size: int, parameters: int, ranks: int, where: MemoryKind) -> State:
    share = -(-size * parameters // ranks)
    return State(share, share, where)
