"""Metrics that every pod serves at ``/metrics``: the one table that code, alerts and dashboards read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Literal["gauge", "counter"]
    help: str
    """With its unit."""


def _table(*rows: Metric) -> dict[str, Metric]:
    return {row.name: row for row in rows}


METRICS = _table(
    Metric("trainwright_up", "gauge", "1 while the supervisor runs"),
    Metric("trainwright_ranks_alive", "gauge", "Local rank processes that run"),
    Metric("trainwright_peers_connected", "gauge", "Pods of the run that are connected, this one included (node 0 only)"),
    Metric("trainwright_step", "gauge", "Optimizer steps finished"),
    Metric("trainwright_samples", "gauge", "Samples consumed by the whole run"),
    Metric("trainwright_loss", "gauge", "Training loss of the last logged step, mean over the global batch"),
    Metric("trainwright_learning_rate", "gauge", "Learning rate of the last step"),
    Metric("trainwright_gradient_norm", "gauge", "Global gradient norm before clipping"),
    Metric("trainwright_samples_per_second", "gauge", "Samples per second over the last logging interval, whole run"),
    Metric("trainwright_step_seconds", "gauge", "Seconds per optimizer step over the last logging interval"),
    Metric("trainwright_last_step_timestamp_seconds", "gauge", "Unix time of the last finished step"),
    Metric("trainwright_evaluation_loss", "gauge", "Loss on held-out data"),
    Metric("trainwright_evaluation_accuracy", "gauge", "Share of held-out samples or tokens predicted right"),
    Metric("trainwright_committed_step", "gauge", "Step of the last committed checkpoint"),
    Metric("trainwright_last_commit_timestamp_seconds", "gauge", "Unix time of the last committed checkpoint"),
    Metric("trainwright_checkpoint_save_seconds", "gauge", "Seconds the last checkpoint took, commit included"),
    Metric("trainwright_checkpoint_failures", "counter", "Checkpoints that could not be committed"),
)
