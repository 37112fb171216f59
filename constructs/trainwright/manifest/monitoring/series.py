"""The series of one run: how Prometheus stores what its pods serve."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.run import Run
from trainwright_trainer.contract.metrics import METRICS

RUN_LABEL, IDENTITY_LABEL = POD_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/instance")
"""Labels of the pods that every series of a run carries: the run, and its identity."""

RUN, IDENTITY = (label.translate(str.maketrans("./", "__")) for label in POD_LABELS)
"""The same as Prometheus spells them: every character that a label's name cannot have becomes an underscore."""

GPU_UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
"""Of dcgm-exporter, in percent. The only series in our expressions that the trainer does not serve."""


@dataclass(frozen=True, slots=True)
class Series:
    """Selectors for the series of one run, over all its identities and pods."""

    run: str
    namespace: str
    identity: str | None = None
    """A regular expression for the identities to look at; None: all."""

    @classmethod
    def of(cls, run: Run, identity: str | None = None) -> Series:
        return cls(run=run.run, namespace=run.namespace, identity=identity)

    def select(self, metric: str) -> str:
        """One sample a pod of a metric in the trainer's table.

        Raises:
            KeyError: for a name that is not in the table.
        """
        row = METRICS[metric]
        # The text format ends the samples of a counter with _total; prometheus-client adds it.
        name = f"{row.name}_total" if row.kind == "counter" else row.name
        identity = f',{IDENTITY}=~"{self.identity}"' if self.identity else ""
        return f'{name}{{namespace="{self.namespace}",{RUN}="{self.run}"{identity}}}'

    def highest(self, metric: str) -> str:
        """One sample an identity: ranks of several pods report the same number, some a moment later."""
        return f"max by ({IDENTITY}) ({self.select(metric)})"

    def gpu_utilization(self, window: str) -> str:
        """Mean of each GPU over a window, under the label ``pod`` of the pod that uses it; of all pods in the namespace.

        dcgm-exporter's own labels ``pod`` and ``namespace`` name the pod that has the GPU. A scrape that does not honor labels
        keeps them as ``exported_pod`` and ``exported_namespace`` (Prometheus, scrape_config, honor_labels); both forms count.
        """
        exported = f'avg_over_time({GPU_UTILIZATION}{{exported_namespace="{self.namespace}"}}[{window}])'
        honored = f'avg_over_time({GPU_UTILIZATION}{{namespace="{self.namespace}",exported_namespace=""}}[{window}])'
        return f'label_replace({exported}, "pod", "$1", "exported_pod", "(.+)")\n    or\n    {honored}'
