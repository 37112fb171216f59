"""The plan as a person reads it: numbers with their reasons, no Kubernetes needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from trainwright.findings import Finding, Severity
from trainwright.plan import Plan
from trainwright.units import GIB

WIDTH = 14


def plan_lines(plan: Plan, findings: Sequence[Finding] = (), overridden: Sequence[str] = ()) -> list[str]:
    """A title and one aligned line a subject."""
    title = f"{plan.name} on {plan.cluster} · {plan.topology} · {plan.target_title}"
    return [title, *(f"  {label:<{WIDTH}}{text}" for label, text in _rows(plan, findings, overridden))]


def plan_data(plan: Plan) -> dict[str, Any]:
    """The same numbers for a program: plain JSON, sizes in bytes, CPUs in millicores."""
    data = asdict(plan)
    if plan.memory is not None:
        data["memory"] |= {"low": plan.memory.low, "high": plan.memory.high}
    for entry, variable in zip(data["environment"], plan.environment, strict=True):
        entry["secret"] = None if variable.secret is None else variable.secret.model_dump()
    return data


def _rows(plan: Plan, findings: Sequence[Finding], overridden: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield _ranks(plan)
    if plan.batch:
        batch = plan.batch
        yield "batch", f"{batch.effective} = micro {batch.micro} x accumulation {batch.accumulation} x {batch.ranks} ranks"
    if plan.learning_rate:
        rate = plan.learning_rate
        warmup = f", {rate.warmup_steps:,} warm-up steps" if rate.warmup_steps else ", no warm-up"
        yield "learning rate", f"{rate.peak:.1e}{warmup} ({rate.reason})"
    if plan.duration:
        yield "duration", _duration(plan)
    yield "memory", _memory(plan)
    resources = plan.resources
    yield "pod", f"{resources.cpu} CPU, {resources.memory} memory ({resources.memory_reason}), shared memory {resources.shm}"
    rendezvous = plan.rendezvous
    yield "rendezvous", f"{rendezvous.kind}, {rendezvous.host}:{rendezvous.port}"
    yield "checkpoints", _checkpoints(plan)
    yield "guarantees", ", ".join(plan.guarantees) or "none: the work is an opaque command"
    if overridden:
        yield "overrides", f"{len(overridden)}: {', '.join(overridden)}"
    yield "findings", _findings(findings)


def _ranks(plan: Plan) -> tuple[str, str]:
    world = plan.world
    nodes = _count(world.nodes, "node")
    if world.gpus_per_node:
        gpus = _count(world.nodes * world.gpus_per_node, "GPU")
        return gpus, f"{nodes} x {world.gpus_per_node} {world.machine} (pool {world.pool})"
    each = _count(world.processes_per_node, "rank")
    return _count(world.size, "CPU rank"), f"{nodes} with {world.machine}, {each} each (pool {world.pool})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _duration(plan: Plan) -> str:
    duration = plan.duration
    assert duration is not None  # noqa: S101 - asked only where there is one
    epochs = f"{duration.epochs:g} epochs" if duration.epochs else ""
    steps = f"{duration.steps:,} steps" if duration.steps else ""
    return f"{' = '.join(part for part in (epochs, steps) if part)} ({duration.reason})"


def _memory(plan: Plan) -> str:
    memory = plan.memory
    if memory is None:
        return f"not known: {plan.memory_unknown}"
    parts = ", ".join(f"{part.name} {_interval(part.low, part.high)}" for part in memory.parts)
    per = "per GPU" if plan.world.gpus_per_node else "per rank"
    return f"{per} {_interval(memory.low, memory.high)} of {_gib(memory.limit)} GiB: {parts}"


def _checkpoints(plan: Plan) -> str:
    checkpoint, grace = plan.checkpoint, plan.grace
    if checkpoint is None:
        return "none: nothing is mounted for them"
    if checkpoint.size is None:
        return f"{checkpoint.directory}, left to the work; {grace.seconds} s grace"
    return (f"{checkpoint.directory} {checkpoint.every}, about {_bytes(checkpoint.size)}, "
            f"save {_seconds(checkpoint.save_seconds)} of {grace.seconds} s grace")


def _seconds(seconds: float | None) -> str:
    return f"{seconds:g} s" if seconds and seconds >= 1 else "under 1 s"


def _findings(findings: Sequence[Finding]) -> str:
    counts = []
    for severity, word in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "note")):
        codes = [finding.code for finding in findings if finding.severity is severity]
        if codes:
            counts.append(f"{len(codes)} {word}{'s' if len(codes) > 1 else ''} ({', '.join(dict.fromkeys(codes))})")
    return ", ".join(counts) or "none"


def _interval(low: int, high: int) -> str:
    return _gib(low) if _gib(low) == _gib(high) else f"{_gib(low)} to {_gib(high)}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}" if size >= GIB / 20 or size == 0 else f"{size / GIB:.1g}"


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"
