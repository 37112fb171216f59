"""What the pods of a run serve to Prometheus: the series and their selectors, and what decides which of them there are."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from trainwright.handshake import Rendezvous
from trainwright.manifest.labels import IDENTITY_LABEL, RUN_LABEL
from trainwright.plan import Resolution
from trainwright.run import Run
from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.layout import EXIT_MARGIN_SECONDS
from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.contract.served import ATTEMPTS, SUPERVISED, served_by
from trainwright_trainer.contract.training import Training

POD_LABELS = (RUN_LABEL, IDENTITY_LABEL)
"""Labels of the pods that every series of a run carries: the run, and its identity."""

RUN, IDENTITY = (label.translate(str.maketrans("./", "__")) for label in POD_LABELS)
"""The same as Prometheus spells them: every character that a label's name cannot have becomes an underscore."""

GPU_UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
"""Of dcgm-exporter, in percent. The only series in our expressions that the trainer does not serve."""


class Series(NamedTuple):
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


def served_metrics(resolution: Resolution) -> frozenset[str]:
    """Names of the metrics that the pods serve once the run is under way. Without a specification nothing keeps count."""
    return served_by(resolution.spec) if resolution.spec else frozenset(SUPERVISED) - {ATTEMPTS}


DCGM_RESOURCE = "nvidia.com/gpu"
"""Whole GPUs. A slice of one has no utilization of its own (DCGM user guide, MIG)."""


class MonitoredRun(NamedTuple):
    """A run as its alerts see it."""

    series: Series
    served: frozenset[str]
    """Metrics of the trainer's table that its pods serve."""
    renewed: str
    """Metric that is served by every pod which a new attempt replaces."""
    renewed_pods: int
    """How many of those there are, at most."""
    attempts_an_incident: int
    """An elastic run restarts without the pod that is lost, and once more with the one that replaces it."""
    log_every_steps: int | None
    """How often the trainer reports a step, or a round; None where the program is the user's own and reports none."""
    scored_each_step: bool
    """Whether held-out data is scored after every step: then much time outside steps is normal."""
    save_every_seconds: float | None
    save_every_steps: int | None
    save_seconds: int
    """What one save is expected to take."""
    seconds_for_save: float
    """What the grace period of a pod that is told to end leaves for one, by the trainer's own arithmetic."""
    gpus_seen: bool
    """Whether dcgm-exporter tells how busy the run's GPUs are."""


def serving_pods(resolution: Resolution) -> int:
    """The largest number of pods that serve metrics: those whose first process is our supervisor."""
    pods = sum(role.pods for role in resolution.binding.roles if resolution.processes[role.name].supervised)
    elastic = resolution.needs.elastic
    return max(pods, elastic.maximum) if pods and elastic else pods


def monitored_run(resolution: Resolution) -> MonitoredRun:
    """What the alerts of a run depend on; for runs with :func:`serving_pods`, on a cluster with monitoring."""
    spec, monitoring = resolution.spec, resolution.cluster.monitoring
    work = spec.work if spec is not None and isinstance(spec.work, Training | Boosting) else None
    by_launcher = resolution.needs.rendezvous is Rendezvous.MPI_HOSTFILE
    gpu = resolution.pool.gpu if resolution.needs.gpus_per_node else None
    return MonitoredRun(
        series=Series.of(resolution.run),
        served=served_metrics(resolution),
        # Under mpirun the supervisors of the workers stay, and the one of the launcher decides for all.
        renewed="trainwright_peers_connected" if by_launcher else "trainwright_up",
        renewed_pods=1 if by_launcher else serving_pods(resolution),
        attempts_an_incident=2 if resolution.needs.elastic else 1,
        log_every_steps=work.log_every_steps if work else None,
        scored_each_step=isinstance(work, Boosting) and work.early_stopping_rounds is not None,
        save_every_seconds=work.checkpoints.every_seconds if work else None,
        save_every_steps=work.checkpoints.every_steps if work else None,
        save_seconds=ceil(spec.lifecycle.save_seconds) if spec else 0,
        seconds_for_save=spec.lifecycle.grace_seconds - EXIT_MARGIN_SECONDS if spec else 0,
        gpus_seen=bool(monitoring and monitoring.dcgm and gpu and gpu.resource == DCGM_RESOURCE),
    )
