"""Figures as text for a person."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright_trainer.commands.bench.figures import Figures

_GIGA, _TERA, _MEBI = 1e9, 1e12, 2**20


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
        yield "model FLOPs", "not told: there is no formula for this architecture"
        return
    yield "model FLOPs", f"{figures.flops / _GIGA:,.3f} GFLOP a {figures.flops_unit}: {figures.flops_formula}"
    if figures.mfu is None or figures.peak_flops is None:
        yield "MFU", "not told: the peak of this device is not known; give --peak-tflops"
    else:
        yield "MFU", f"{figures.mfu:.1%} of {figures.peak_flops / _TERA:,.1f} TFLOP/s a device"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 1 else f"{seconds:.3f} s"
