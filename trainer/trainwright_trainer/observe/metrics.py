"""Measurements of a pod: the latest value of each metric in the contract's table, in Prometheus' text format."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.observe.log import get_log


class Measurements(Collector):
    """Filled by the event loop, read by the HTTP threads. A metric without a value yet shows its help and no sample."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {"trainwright_up": 1.0, "trainwright_ranks_alive": 0.0}
        self._labelled: dict[str, dict[str, float]] = {}
        self._lock = threading.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def update(self, values: Mapping[str, float]) -> None:
        """Take new values by metric name. A name that is not in the table is left out, with a warning."""
        for name in values.keys() - METRICS.keys():
            get_log().warning("metric_not_known", metric=name)
        with self._lock:
            self._values.update({name: value for name, value in values.items() if name in METRICS})

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
