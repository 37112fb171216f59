"""What the pods of a namespace serve to Prometheus: the series and their selectors, and which runs are watched by them."""

from __future__ import annotations

from typing import NamedTuple

from trainwright.manifest.labels import IDENTITY_LABEL, RUN_LABEL
from trainwright.plan import Resolution
from trainwright_trainer.contract.metrics import METRICS

RUN, IDENTITY = "run", "identity"
LABELS = {RUN: RUN_LABEL, IDENTITY: IDENTITY_LABEL}
"""Label of every series -> label of the pods that it is taken from."""

BY = f"by ({RUN}, {IDENTITY})"
"""One sample an identity."""


def discovered(label: str) -> str:
    """A pod's label as Prometheus spells it while it relabels: what a name there cannot have becomes an underscore."""
    return f"__meta_kubernetes_pod_label_{label.translate(str.maketrans('./-', '___'))}"


GPU_UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
"""Of dcgm-exporter, in percent."""
RUN_INFO = "trainwright_run_info"
"""Recorded as 1 for each run, with what its alerts say of it. This and the former are all that the trainer does not serve."""

DCGM_RESOURCE = "nvidia.com/gpu"
"""Whole GPUs. A slice of one has no utilization of its own (DCGM user guide, MIG)."""


class Series(NamedTuple):
    """Selectors for the series of one namespace, over all its runs, identities and pods."""

    namespace: str
    matchers: str = ""
    """More of them, each after a comma."""

    def select(self, metric: str) -> str:
        """One sample a pod of a metric in the trainer's table.

        Raises:
            KeyError: for a name that is not in the table.
        """
        row = METRICS[metric]
        # The text format ends the samples of a counter with _total; prometheus-client adds it.
        name = f"{row.name}_total" if row.kind == "counter" else row.name
        return f'{name}{{namespace="{self.namespace}"{self.matchers}}}'

    def highest(self, metric: str, window: str = "") -> str:
        """One sample an identity: ranks of several pods report the same number, some a moment later."""
        selected = self.select(metric)
        return f"max {BY} ({f'max_over_time({selected}[{window}])' if window else selected})"

    def gpu_utilization(self, window: str) -> str:
        """Mean of each GPU over a window, under the label ``pod`` of the pod that uses it; of all pods in the namespace.

        dcgm-exporter's own labels ``pod`` and ``namespace`` name the pod that has the GPU. A scrape that does not honor labels
        keeps them as ``exported_pod`` and ``exported_namespace`` (Prometheus, scrape_config, honor_labels); both forms count.
        """
        exported = f'avg_over_time({GPU_UTILIZATION}{{exported_namespace="{self.namespace}"}}[{window}])'
        honored = f'avg_over_time({GPU_UTILIZATION}{{namespace="{self.namespace}",exported_namespace=""}}[{window}])'
        return f'label_replace({exported}, "pod", "$1", "exported_pod", "(.+)")\n    or\n    {honored}'


class WatchedRun(NamedTuple):
    """What the alerts of a namespace say of a run, and what only the compiler knows of it."""

    run: str
    team: str
    gpus: str
    """``whole``, where dcgm-exporter can tell how busy its GPUs are, ``other`` or ``none``."""


def serves_metrics(resolution: Resolution) -> bool:
    """Whether pods of the run do: those whose first process is our supervisor."""
    return any(process.supervised for process in resolution.processes.values())


def watched(resolution: Resolution) -> WatchedRun | None:
    """The run, if its cluster has monitoring and its pods serve metrics."""
    if resolution.cluster.monitoring is None or not serves_metrics(resolution):
        return None
    gpu = resolution.pool.gpu if resolution.needs.gpus_per_node else None
    gpus = "none" if gpu is None else "whole" if gpu.resource == DCGM_RESOURCE else "other"
    return WatchedRun(resolution.run.run, resolution.run.team, gpus)
