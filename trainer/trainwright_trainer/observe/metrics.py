"""Measurements of a pod in Prometheus' text format, and two that are worked out here: pace and goodput.

Pace says which ranks take longer for their own part of a step than the others, and the timesheet what the time of an attempt goes
into. Neither has sockets or keeps a time of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median_low

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trainwright_trainer.checkpoint.ledger import Past
from trainwright_trainer.contract.metrics import METRICS, Phase, StepSplit
from trainwright_trainer.observe.log import get_log


class Measurements(Collector):
    """Filled by the event loop, read by the HTTP threads. A metric without a value yet shows its help and no sample."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {"trainwright_up": 1.0, "trainwright_ranks_alive": 0.0}
        self._labelled: dict[str, dict[str, float]] = {}
        self._lock = threading.Lock()
        self._counts: dict[str, dict[int, float]] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def update(self, values: Mapping[str, float], rank: int = 0) -> None:
        """Take new values by metric name. A name that is not in the table is left out, with a warning.

        Each rank counts for itself: a counter has the sum of what they last said.
        """
        for name in values.keys() - METRICS.keys():
            get_log().warning("metric_not_known", metric=name)
        with self._lock:
            for name in values.keys() & METRICS.keys():
                value = values[name]
                if METRICS[name].kind == "counter":
                    counts = self._counts.setdefault(name, {})
                    counts[rank] = value
                    value = sum(counts.values())
                self._values[name] = value

    def update_labelled(self, name: str, values: Mapping[str, float]) -> None:
        """Take new values of a metric in the table that has a label, by the label's value."""
        with self._lock:
            self._labelled.setdefault(name, {}).update(values)

    def forget(self, names: Iterable[str]) -> None:
        """Drop values that no longer hold."""
        with self._lock:
            for name in names:
                self._values.pop(name, None)

    def value(self, name: str) -> float | None:
        with self._lock:
            return self._values.get(name)

    def text(self) -> bytes:
        """What ``/metrics`` serves."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            values, labelled = dict(self._values), {name: dict(samples) for name, samples in self._labelled.items()}
        for metric in METRICS.values():
            labels = [metric.label] if metric.label else []
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = make(metric.name, metric.help, labels=labels)
            if metric.name in values:
                family.add_metric([], values[metric.name])
            for label, value in labelled.get(metric.name, {}).items():
                family.add_metric([label], value)
            yield family


SLOW = 1.3
"""A rank is slow above so many times the median of all."""
IN_A_ROW = 2
"""Logging intervals; one alone may be another program's, or the garbage collector's."""
SHORTEST_SECONDS = 0.001
"""Median below which differences say nothing: they are the operating system's."""


class RunPace:
    """Of all ranks of a run, in metrics, and in a line of the log where the slow ones change."""

    def __init__(self, ranks: int, measurements: Measurements) -> None:
        self._gathering, self._stragglers, self._measurements = Gathering(ranks), Stragglers(), measurements

    def heard(self, step: int, times: Mapping[int, StepSplit]) -> None:
        """What the time of a step goes into, by rank, in one of the pods."""
        whole = self._gathering.add(times)
        if whole is None:
            return
        before, slowest = self._stragglers.ranks, self._stragglers.judge(own_seconds(whole))
        self._measurements.update({
            "trainwright_slowest_rank": slowest.rank, "trainwright_slowest_rank_ratio": slowest.ratio,
            "trainwright_slow_ranks": len(self._stragglers.ranks),
            "trainwright_communication_seconds": sending_seconds(whole),
            "trainwright_data_wait_seconds": max(time.data_seconds for time in whole.values()),
        })  # fmt: skip
        if self._stragglers.ranks != before:
            its = whole[slowest.rank]
            get_log().warning(
                "stragglers", step=step, ranks=list(self._stragglers.ranks), slowest=slowest.rank, ratio=round(slowest.ratio, 2),
                step_seconds=round(its.step_seconds, 4), data_seconds=round(its.data_seconds, 4),
            )


def own_seconds(times: Mapping[int, StepSplit]) -> dict[int, float]:
    """What a step would take if all ranks were like this one, by rank.

    Whatever a rank is in collectives for longer than what sending takes, it waits.
    """
    sending = sending_seconds(times)
    return {rank: max(0.0, time.step_seconds - (time.waited_seconds - sending)) for rank, time in times.items()}


def sending_seconds(times: Mapping[int, StepSplit]) -> float:
    """What sending takes of a step, on every rank.

    All ranks leave a collective together. The rank that is in collectives for the shortest time waits for nobody.
    """
    return min(time.waited_seconds for time in times.values())


class Gathering:
    """Puts together what all ranks last said. Ranks are at most a step apart, so the same interval is meant, or the next."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._times: dict[int, StepSplit] = {}

    def add(self, times: Mapping[int, StepSplit]) -> dict[int, StepSplit] | None:
        """By rank, whenever all have said something since the last time."""
        self._times.update(times)
        if len(self._times) < self._size:
            return None
        whole, self._times = self._times, {}
        return whole


@dataclass(frozen=True, slots=True)
class Slowest:
    rank: int
    ratio: float
    """Its seconds over the median of all."""


class Stragglers:
    """Which ranks have been slow in the latest intervals."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}
        self.ranks: tuple[int, ...] = ()
        """Slow so often in a row that it is no accident, ascending."""

    def judge(self, seconds: Mapping[int, float]) -> Slowest:
        """Take the seconds of all ranks for one interval."""
        usual = median_low(seconds.values())  # of two ranks the faster one: a mean would hide what it is to show
        slow = {rank for rank, own in seconds.items() if own > SLOW * usual and usual >= SHORTEST_SECONDS}
        self._row = {rank: self._row.get(rank, 0) + 1 for rank in slow}
        self.ranks = tuple(sorted(rank for rank, times in self._row.items() if times >= IN_A_ROW))
        slowest = max(seconds, key=lambda rank: seconds[rank])
        return Slowest(slowest, seconds[slowest] / max(usual, 1e-9))


REPLAYING = "replaying"
"""Training on steps that an earlier attempt had done and not committed."""


class Timesheet:
    """All times are on one clock, in seconds.

    Args:
        past: The attempts before, with this one.
        now: When it began.
    """

    def __init__(self, past: Past, now: float) -> None:
        self._past, self._began = past, now
        self._phase: Phase | None = "starting"
        self._since = now
        self._seconds: dict[Phase, float] = {}
        self._first_step: int | None = None
        self.last_step: int | None = None

    def follow(self, phase: Phase, step: int | None, now: float) -> None:
        """The rank is in this phase, and this many steps are done."""
        if self._phase is None:
            return
        if phase != self._phase:
            self._book(now)
            self._phase = phase
        if step is not None and (phase == "training" or self._first_step is not None):  # before, it is not restored yet
            if self._first_step is None:
                self._first_step = step
            self.last_step = max(step, self.last_step or 0)

    def close(self, now: float) -> None:
        """The rank has ended."""
        self._book(now)
        self._phase = None

    def seconds(self, now: float) -> dict[str, float]:
        """By phase, the present one until now; what follows the last step is in none."""
        found: dict[str, float] = {phase: seconds for phase, seconds in self._seconds.items() if phase != "finished"}
        if self._phase not in (None, "finished"):
            found[self._phase] = found.get(self._phase, 0.0) + now - self._since
        if "training" in found:
            found[REPLAYING] = found["training"] * self._replayed_share
            found["training"] -= found[REPLAYING]
        return found

    def goodput(self, now: float) -> float:
        """Seconds for steps done for the first time over all seconds since the first attempt began."""
        age = self._past.age_seconds + now - self._began
        productive = self._past.productive_seconds + self.seconds(now).get("training", 0.0)
        return min(1.0, productive / age) if age > 0 else 0.0

    @property
    def past(self) -> Past:
        return self._past

    def _book(self, now: float) -> None:
        if self._phase is not None:
            self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._since = now

    @property
    def _replayed_share(self) -> float:
        """Of the attempt's steps, each taken to last as long as the others. Before the first, time counts as it will then."""
        first, last, reached = self._first_step or 0, self.last_step or 0, self._past.reached_step
        if last <= first:
            return 1.0 if first < reached else 0.0
        return (min(last, max(reached, first)) - first) / (last - first)
