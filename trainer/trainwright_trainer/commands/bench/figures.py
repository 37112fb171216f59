"""What a bench found, from what its ranks said of their steps, and as text for a person."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainwright_trainer.training.witness import StepTime

_TENTHS = 10
_GIGA, _TERA, _MEBI = 1e9, 1e12, 2**20


@dataclass(frozen=True, slots=True)
class Speed:
    """Of the steps that were measured."""

    steps: int
    warm_up: int
    """Steps before them."""
    samples_per_second: float
    """Of all ranks together."""
    tokens_per_second: float | None
    """The same in tokens, padding included; None for images."""
    step_seconds: float
    """Median."""
    step_seconds_p10: float
    step_seconds_p90: float
    data_share: float
    """Of the time, in which the rank that waited longest had no data."""
    data_rank: int
    peak_bytes: int
    """Most memory of any rank: of the GPU what torch took, else what was resident."""
    device: str
    """Name of the GPU, or ``cpu``."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that a bench reports."""

    identity: str
    engine: str
    precision: str
    ranks: int
    step_samples: int
    trainer: str
    """Version."""
    torch: str
    cpus: int
    speed: Speed
    flops: int | None
    """Of one ``flops_unit``."""
    flops_unit: str | None
    flops_formula: str | None
    peak_flops: float | None
    """A second, of one device."""
    mfu: float | None


def speed(accounts: Mapping[int, Sequence[StepTime]], warm_up: int, steps: int, samples: int, tokens_each: int | None) -> Speed:
    """Figures of ``steps`` steps after the first ``warm_up``.

    Args:
        accounts: Rank -> its steps from the first on; at least ``warm_up + steps`` of each. ``warm_up`` is at least 1.
        samples: Of one step, all ranks together.
        tokens_each: Of one sample, for text.
    """
    measured = {rank: account[warm_up - 1:warm_up + steps] for rank, account in accounts.items()}
    durations = [later.at - earlier.at for earlier, later in pairwise(measured[0])]
    total = measured[0][-1].at - measured[0][0].at
    waits = {rank: sum(step.data_seconds for step in account[1:]) for rank, account in measured.items()}
    slowest = max(waits, key=lambda rank: waits[rank])
    tenths = statistics.quantiles(durations, n=_TENTHS, method="inclusive")
    per_second = steps * samples / total
    return Speed(
        steps=steps,
        warm_up=warm_up,
        samples_per_second=per_second,
        tokens_per_second=None if tokens_each is None else per_second * tokens_each,
        step_seconds=statistics.median(durations),
        step_seconds_p10=tenths[0],
        step_seconds_p90=tenths[-1],
        data_share=min(1.0, waits[slowest] / total),
        data_rank=slowest,
        peak_bytes=max(account[-1].peak_bytes for account in measured.values()),
        device=measured[0][-1].device,
    )


def report(figures: Figures) -> str:
    """Lines of a name and a figure, aligned."""
    rows = list(_rows(figures))
    width = max(len(name) for name, _ in rows)
    head = (
        f"{figures.identity}: {figures.engine}, {figures.ranks} rank{'s' if figures.ranks > 1 else ''} on "
        f"{figures.speed.device}, {figures.precision}, {figures.step_samples:,} samples a step"
    )
    return "\n".join([head, *(f"  {name:<{width}}  {text}" for name, text in rows)])


def _rows(figures: Figures) -> Iterator[tuple[str, str]]:
    speed = figures.speed
    yield "measured", f"{speed.steps} steps, after {speed.warm_up} to warm up; no saves between them"
    tokens = "" if speed.tokens_per_second is None else f"{speed.tokens_per_second:,.0f} tokens a second, "
    yield "speed", f"{tokens}{speed.samples_per_second:,.1f} samples a second"
    yield "step", (
        f"{_seconds(speed.step_seconds)} median, {_seconds(speed.step_seconds_p10)} p10, {_seconds(speed.step_seconds_p90)} p90"
    )
    yield "data", f"{speed.data_share:.1%} of the time waiting for it (rank {speed.data_rank}, which waited longest)"
    kind = "resident" if speed.device == "cpu" else "taken by torch on the GPU"
    yield "memory", f"{speed.peak_bytes / _MEBI:,.0f} MiB at most in a rank ({kind})"
    if figures.flops is None:
        yield "model FLOPs", "unknown: there is no formula for this architecture"
        return
    yield "model FLOPs", f"{figures.flops / _GIGA:,.3f} GFLOP a {figures.flops_unit}: {figures.flops_formula}"
    if figures.mfu is None or figures.peak_flops is None:
        yield "MFU", "unknown: give the peak of this device with --peak-tflops"
    else:
        yield "MFU", f"{figures.mfu:.1%} of {figures.peak_flops / _TERA:,.1f} TFLOP/s a device"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 1 else f"{seconds:.3f} s"
