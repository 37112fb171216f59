"""What the alerts of a run depend on, beside its series."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from trainwright.manifest.monitoring.series import Series
from trainwright.plan import Resolution
from trainwright_trainer.contract.grace import EXIT_MARGIN_SECONDS
from trainwright_trainer.contract.training import Training

DCGM_RESOURCE = "nvidia.com/gpu"
"""Whole GPUs. A slice of one has no utilization of its own (DCGM user guide, MIG)."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A run as its alerts see it."""

    series: Series
    pods: int
    """Pods that serve metrics, at most."""
    log_every_steps: int | None
    """How often the trainer reports a step; None where the program is the user's own and reports none."""
    save_every_seconds: float | None
    save_every_steps: int | None
    save_seconds: int
    """What one save is expected to take."""
    seconds_for_save: float
    """What the grace period of a pod that is told to end leaves for one, by the trainer's own arithmetic."""
    trainer_version: str | None
    """Of the run's image, as far as the run says."""
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
    work = spec.work if spec is not None and isinstance(spec.work, Training) else None
    gpu = resolution.pool.gpu if resolution.needs.gpus_per_node else None
    return Watched(
        series=Series.of(resolution.run),
        pods=serving_pods(resolution),
        log_every_steps=work.log_every_steps if work else None,
        save_every_seconds=work.checkpoints.every_seconds if work else None,
        save_every_steps=work.checkpoints.every_steps if work else None,
        save_seconds=ceil(spec.lifecycle.save_seconds) if spec else 0,
        seconds_for_save=spec.lifecycle.grace_seconds - EXIT_MARGIN_SECONDS if spec else 0,
        trainer_version=resolution.run.trainer_version,
        gpus_seen=bool(monitoring and monitoring.dcgm and gpu and gpu.resource == DCGM_RESOURCE),
    )
