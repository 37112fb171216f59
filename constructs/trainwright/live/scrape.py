"""What a run's pods serve at ``/metrics``, read from a snapshot: one moment, of the first pod that answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import NamedTuple

from trainwright.live.case import Case
from trainwright.live.rows import Fact
from trainwright.units import counted
from trainwright_trainer.contract.limits import GOODPUT, RESTARTS

_SAMPLE = re.compile(r"^trainwright_(\w+?)(?:_total)?(?:\{([^}]*)\})? (\S+)", re.MULTILINE)
_PHASE = re.compile(r'(?:^|,)\s*phase="(\w+)"')


class Scrape(NamedTuple):
    """Empty where nothing was served."""

    values: Mapping[str, float]
    """By the name of the metric, without ``trainwright_``; what is no number is left out."""
    phase: str
    """What the run does now; empty where its trainer does not say."""
    spent: Mapping[str, float]
    """Phase -> seconds of this attempt."""


def scrape_of(case: Case) -> Scrape:
    values: dict[str, float] = {}
    phases: dict[str, dict[str, float]] = {"phase": {}, "phase_seconds": {}}
    for name, labels, value in _samples(case):
        of = _PHASE.search(labels)
        if name in phases and of:
            phases[name][of[1]] = value
        else:
            values[name] = value
    now = next((phase for phase, value in phases["phase"].items() if value), "")
    return Scrape(values, now, phases["phase_seconds"])


def _samples(case: Case) -> Iterator[tuple[str, str, float]]:
    for pod in case.pods:
        for name, labels, text in _SAMPLE.findall(case.snapshot.metrics.get(pod.name, "")):
            try:
                value = float(text)
            except ValueError:
                continue
            if isfinite(value):
                yield name, labels, value


SHARE_FOR_DATA, SHARE_FOR_OTHERS = 0.2, 0.5
"""Of a step, from which on it goes into its data, or into collectives, more than anything else that could be made shorter."""
_SHORTEST_SECONDS = 0.001
"""Steps below say nothing about their parts: those are the operating system's."""


def pace_facts(case: Case) -> Iterator[Fact]:
    """What the steps of a run that trains go into, as far as its trainer says it."""
    values, _, spent = scrape_of(case)
    seconds = values.get("step_seconds", 0.0)
    if seconds < _SHORTEST_SECONDS:
        return
    for_data, for_others = (values.get(f"{name}_seconds") for name in ("data_wait", "communication"))
    of_work = sum(spent.get(phase, 0.0) for phase in ("training", "replaying", "saving", "evaluating"))
    stands = spent.get("saving", 0.0) + spent.get("evaluating", 0.0)
    attempts, goodput = values.get("attempt", 0.0), values.get("goodput")
    fields = {
        "seconds": f"{seconds:.3g}", "rank": f"{values.get('slowest_rank', 0):.0f}",
        "ratio": f"{values.get('slowest_rank_ratio', 0):.2g}",
        "slow": f"{values['slow_ranks']:.0f}" if values.get("slow_ranks") else "",
        "data": _share(for_data, seconds, SHARE_FOR_DATA), "others": _share(for_others, seconds, SHARE_FOR_OTHERS),
        "stands": _share(stands, of_work, 1 - GOODPUT), "attempts": f"{attempts:.0f}",
        "goodput": f"{goodput:.0%}" if goodput is not None and goodput < GOODPUT and attempts > RESTARTS else "",
        "parts": "",
    }  # fmt: skip
    shown = [f"a step takes {seconds:.3g} s"]
    if "slowest_rank" in values:
        shown.append(f"slowest rank {fields['rank']} at {fields['ratio']} x the median")
    if for_data is not None and for_others is not None:
        fields["parts"] = f"{for_others / seconds:.0%} in collectives, {for_data / seconds:.0%} for data"
        shown.insert(1, fields["parts"])
    if of_work:
        shown.append(f"{stands / of_work:.0%} of this attempt's time in saves and evaluations")
    if goodput is not None:
        shown.append(f"goodput {goodput:.0%} over {counted(int(attempts), 'attempt')}")
    yield Fact("pace", fields, f"metrics: {', '.join(shown)}")


def _share(part: float | None, whole: float, least: float) -> str:
    return f"{part / whole:.0%}" if part is not None and whole > 0 and part / whole >= least else ""
