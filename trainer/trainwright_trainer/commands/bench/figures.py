"""What a bench found, from what its ranks said of their steps."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainwright_trainer.training.witness import StepTime

_TENTHS = 10


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
    """All that is told."""

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
