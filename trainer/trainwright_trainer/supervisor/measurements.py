"""Measurements of a pod: the latest value of each metric in the contract's table, in Prometheus' text format."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.log import get_log


class Measurements(Collector):
    """Filled by the event loop, read by the HTTP threads. A metric without a value yet shows its help and no sample."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {"trainwright_up": 1.0, "trainwright_ranks_alive": 0.0}
        self._lock = threading.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def update(self, values: Mapping[str, float]) -> None:
        """Take new values by metric name. A name that is not in the table is left out, with a warning."""
        for name in values.keys() - METRICS.keys():
            get_log().warning("metric_not_known", metric=name)
        with self._lock:
            self._values.update({name: value for name, value in values.items() if name in METRICS})

    def value(self, name: str) -> float | None:
        with self._lock:
            return self._values.get(name)

    def text(self) -> bytes:
        """What ``/metrics`` serves."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            values = dict(self._values)
        for metric in METRICS.values():
            family = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(metric.name, metric.help)
            if metric.name in values:
                family.add_metric([], values[metric.name])
            yield family
