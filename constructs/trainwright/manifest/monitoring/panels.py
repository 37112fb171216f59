"""The panels of a run's dashboard: together they show every metric of the trainer's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainwright.manifest.monitoring.series import IDENTITY, Series
from trainwright.manifest.monitoring.watched import Watched
from trainwright_trainer.contract.metrics import METRICS


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric over time."""

    title: str
    unit: str
    """As Grafana calls it: ``s``, ``short``, ``percentunit``."""
    metric: str
    form: Literal["run", "pod", "age", "failures", "phases"] = "run"
    """One curve an identity, one a pod, the seconds since a time, the most that one attempt had in the last hour, or the share of
    the time that goes into each phase."""

    @property
    def help(self) -> str:
        """The table's own words."""
        return METRICS[self.metric].help

    def query(self, run: Watched, series: Series) -> Query | None:
        """What it draws; None where the run does not serve the metric."""
        if self.metric not in run.served:
            return None
        identity, pod = f"{{{{{IDENTITY}}}}}", "{{pod}}"
        match self.form:
            case "run":
                return Query(series.highest(self.metric), identity)
            case "pod":
                return Query(f"max by (pod) ({series.select(self.metric)})", pod)
            case "age":
                return Query(f"time() - {series.highest(self.metric)}", identity)
            case "failures":
                return Query(f"max by ({IDENTITY}) (max_over_time({series.select(self.metric)}[1h]))", identity)
            case "phases":
                return Query(f"max by ({IDENTITY}, phase) (rate({series.select(self.metric)}[10m]))", f"{identity} {{{{phase}}}}")


class GpuPanel(Panel):
    """What dcgm-exporter knows of the pods' GPUs, where it is there."""

    @property
    def help(self) -> str:
        return "Share of the time in which a GPU did anything at all, waiting in a collective included, in percent"

    def query(self, run: Watched, series: Series) -> Query | None:
        if not run.gpus_seen:
            return None
        own = f"max by (pod) ({series.select(self.metric)})"
        return Query(f"min by (pod) (\n    {series.gpu_utilization('5m')}\n  )\n  and on (pod) {own}\n", "{{pod}}")


PANELS = (
    Panel("Loss", "short", "trainwright_loss"),
    Panel("Held-out loss", "short", "trainwright_evaluation_loss"),
    Panel("Held-out accuracy", "percentunit", "trainwright_evaluation_accuracy"),
    Panel("Learning rate", "short", "trainwright_learning_rate"),
    Panel("Gradient norm", "short", "trainwright_gradient_norm"),
    Panel("Samples per second", "short", "trainwright_samples_per_second"),
    Panel("Seconds per step", "s", "trainwright_step_seconds"),
    Panel("Step", "short", "trainwright_step"),
    Panel("Samples", "short", "trainwright_samples"),
    Panel("Since the last step", "s", "trainwright_last_step_timestamp_seconds", "age"),
    Panel("Committed step", "short", "trainwright_committed_step"),
    Panel("Since the last commit", "s", "trainwright_last_commit_timestamp_seconds", "age"),
    Panel("Seconds per save", "s", "trainwright_checkpoint_save_seconds"),
    Panel("Failed saves, last hour", "short", "trainwright_checkpoint_failures", "failures"),
    Panel("Stand-still for a save", "s", "trainwright_checkpoint_stall_seconds"),
    Panel("Goodput", "percentunit", "trainwright_goodput"),
    Panel("Time by phase", "percentunit", "trainwright_phase_seconds", "phases"),
    Panel("Attempt", "short", "trainwright_attempt"),
    Panel("Time between attempts", "s", "trainwright_down_seconds"),
    Panel("Slowest rank", "short", "trainwright_slowest_rank"),
    Panel("Slowest rank over median", "short", "trainwright_slowest_rank_ratio"),
    Panel("Matrix product, 10^12 op/s", "short", "trainwright_preflight_tflops", "pod"),
    Panel("Matrix product over median", "percentunit", "trainwright_preflight_share_of_median", "pod"),
    Panel("Memory bandwidth", "Bps", "trainwright_preflight_memory_bytes_per_second", "pod"),
    Panel("All-reduce bus bandwidth", "Bps", "trainwright_preflight_bus_bytes_per_second", "pod"),
    Panel("Write and read a file", "s", "trainwright_preflight_storage_seconds", "pod"),
    Panel("Clock ahead of rank 0's", "s", "trainwright_preflight_clock_skew_seconds", "pod"),
    Panel("Pods connected", "short", "trainwright_peers_connected"),
    Panel("Supervisors", "short", "trainwright_up", "pod"),
    Panel("Ranks alive", "short", "trainwright_ranks_alive", "pod"),
    GpuPanel("Least busy GPU", "percent", "trainwright_up"),
)
"""In the order of the page, three a row: what is learnt, how fast, how safe, and who is there."""
