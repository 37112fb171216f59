"""What the alerts of a run depend on, beside its series."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from trainwright.handshake import Rendezvous
from trainwright.manifest.monitoring.series import Series
from trainwright.manifest.monitoring.served import served_metrics
from trainwright.plan import Resolution
from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.grace import EXIT_MARGIN_SECONDS
from trainwright_trainer.contract.training import Training

DCGM_RESOURCE = "nvidia.com/gpu"
"""Whole GPUs. A slice of one has no utilization of its own (DCGM user guide, MIG)."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A run as its alerts see it."""

    series: Series
    served: frozenset[str]
    """Metrics of the trainer's table that its pods serve."""
    renewed: str
    """Metric that every pod serves which an attempt starts anew."""
    renewed_pods: int
    """How many of those there are, at most."""
    attempts_an_incident: int
    """An elastic run goes on without the pod that is lost, and begins anew once more with the one that takes its place."""
    log_every_steps: int | None
    """How often the trainer reports a step, or a round; None where the program is the user's own and reports none."""
    scored_each_step: bool
    """Whether held-out data is scored after every step: then much else than steps is in order."""
    save_every_seconds: float | None
    save_every_steps: int | None
    save_seconds: int
    """What one save is expected to take."""
    seconds_for_save: float
    """What the grace period of a pod that is told to end leaves for one, by the trainer's own arithmetic."""
    gpus_seen: bool
    """Whether dcgm-exporter tells how busy the run's GPUs are."""


def serving_pods(resolution: Resolution) -> int:
    """How many pods serve metrics at most: those whose first process is our supervisor."""
    pods = sum(role.pods for role in resolution.binding.roles if resolution.processes[role.name].supervised)
    elastic = resolution.needs.elastic
    return max(pods, elastic.maximum) if pods and elastic else pods


def watched(resolution: Resolution) -> Watched:
    """Of a run that :func:`serving_pods` finds some of, on a cluster with monitoring."""
    spec, monitoring = resolution.spec, resolution.cluster.monitoring
    work = spec.work if spec is not None and isinstance(spec.work, Training | Boosting) else None
    by_launcher = resolution.needs.rendezvous is Rendezvous.MPI_HOSTFILE
    gpu = resolution.pool.gpu if resolution.needs.gpus_per_node else None
    return Watched(
        series=Series.of(resolution.run),
        served=served_metrics(resolution),
        # Under mpirun the supervisors of the workers stay, and the one of the launcher decides for all (supervisor/launchers/launched.py).
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
