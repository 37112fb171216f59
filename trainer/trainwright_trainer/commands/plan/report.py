"""A plan as text for a person."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright_trainer.commands.plan.plan import CheckpointPlan, Plan, TrainingPlan
from trainwright_trainer.contract.estimate.computation import MemoryPart

_CAN = {
    "reshards": "resumes at another number of ranks",
    "sigterm_save": "saves on SIGTERM",
    "saves_in_background": "saves in the background",
    "skips_without_sync": "accumulates without communication",
    "every_rank_writes": "every rank writes its shard",
}
_KIBI = 1024.0


def report(plan: Plan) -> str:
    """Lines of a name and what there is to say, aligned."""
    rows = list(_rows(plan))
    width = max(len(name) for name, _ in rows)
    return "\n".join([_head(plan), *(f"  {name:<{width}}  {text}" for name, text in rows)])


def size(number: float) -> str:
    """Bytes with a unit: ``82.8 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < _KIBI:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= _KIBI
    return f"{number:,.1f} TiB"


def _head(plan: Plan) -> str:
    world = plan.world
    what = plan.training.engine if plan.training else plan.work
    ranks = f"{world.ranks} rank{'s' if world.ranks > 1 else ''} on {world.device}"
    return f"{plan.identity}: {what}, {ranks} ({world.nodes} x {world.processes_per_node}), which meet by {world.rendezvous}"


def _rows(plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.command is not None:
        yield "command", " ".join(plan.command) or "in the pod, behind supervise --"
    if plan.rounds is not None:
        yield "rounds", f"{plan.rounds:,}"
    if plan.training is not None:
        yield from _training(plan.training)
    if plan.checkpoints is not None:
        yield "checkpoints", _checkpoints(plan.checkpoints)
        yield "on SIGTERM", _budget(plan.checkpoints, plan.grace_seconds)
    else:
        yield "on SIGTERM", f"the {plan.work} has {plan.grace_seconds:g} s"


def _training(training: TrainingPlan) -> Iterator[tuple[str, str]]:
    batch, data, length, rate = training.batch, training.data, training.length, training.rate
    product = f"micro {batch.micro} x accumulation {batch.accumulation} x {batch.replicas} replicas"
    yield "batch", f"{batch.samples:,} samples = {product}"
    yield "data", f"{data.source}: " + _joined(_number(data.train, "samples"), _number(data.held_out, "held out"), data.how)
    yield "length", _joined(
        _number(length.steps, "steps") or "steps not known here", _number(length.samples, "samples"),
        _number(length.tokens, "tokens"), None if length.epochs is None else f"{length.epochs:.4g} epochs",
    )
    last = None if rate.last is None else f"{rate.last:.3g} in the last step"
    warm_up = f"warm-up ends with step {rate.warmup_steps:,} ({rate.warmup_samples:,} samples)" if rate.warmup_samples else None
    yield "learning rate", _joined(rate.schedule, f"peak {rate.peak:.3g}", warm_up or "no warm-up", last)
    parameters = _number(training.model.parameters, "parameters")
    yield "model", _joined(f"{training.architecture} for {training.task} in {training.precision}", parameters, training.model.how)
    if training.memory is not None:
        yield "each rank", _memory(training.memory.device)
        if training.memory.host:
            yield "on its host", _memory(training.memory.host)
    elif training.engine == "deepspeed":
        yield "each rank", "not known: DeepSpeed's configuration is not on this machine"
    if training.sent:
        yield "traffic", f"each rank sends {size(training.sent)} a step"
    yield "engine", _joined(*(words for name, words in _CAN.items() if training.capabilities[name]))


def _checkpoints(plan: CheckpointPlan) -> str:
    every = [f"every {plan.every_steps:,} steps"] if plan.every_steps else []
    every += [f"every {plan.every_seconds:g} s"] if plan.every_seconds else []
    each = "" if plan.size is None else f"{size(plan.size)} "
    rhythm = each + (" and ".join(every) or "at the end only")
    return _joined(rhythm, f"{plan.keep} kept", f"resume {plan.resume}", plan.directory)


def _budget(plan: CheckpointPlan, grace_seconds: float) -> str:
    needs = f"a save is expected to take {plan.save_seconds:g} s"
    needs += "" if plan.size is None else f", {size(plan.size / plan.save_seconds)} a second"
    left = f"the grace period of {grace_seconds:g} s leaves {plan.seconds_for_save:g} s"
    return f"{needs}; {left}" + ("" if plan.fits else ": it does not fit, and the run would end with 211")


def _memory(parts: tuple[MemoryPart, ...]) -> str:
    low, high = sum(part.low for part in parts), sum(part.high for part in parts)
    return f"{_interval(low, high)}: " + _joined(*(f"{part.name} {_interval(part.low, part.high)}" for part in parts))


def _interval(low: int, high: int) -> str:
    return size(low) if low == high else f"{size(low)} to {size(high)}"


def _number(number: int | None, noun: str) -> str | None:
    return None if number is None else f"{number:,} {noun}"


def _joined(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)
