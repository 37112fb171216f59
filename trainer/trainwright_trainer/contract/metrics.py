"""Metrics: the one table of those that every pod serves at ``/metrics``, and the sinks that a run's metrics also go to."""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from trainwright_trainer.contract.base import Contract, Report

Phase = Literal["starting", "restoring", "warming_up", "training", "saving", "evaluating", "finished"]
"""What a rank does, and the label of ``trainwright_phase`` and ``trainwright_phase_seconds``.

``starting`` goes until the checkpoint is looked for; ``warming_up`` compiles and runs a first batch that trains nothing.
"""


class StepSplit(Report):
    """What a rank's time goes into, in seconds a step, on the average of a logging interval."""

    step_seconds: float
    """All of it: equal on all ranks, but for the last moments."""
    waited_seconds: float
    """In collectives, for the other ranks and for what is sent."""
    data_seconds: float = 0.0
    """For its own data, which is part of its own work."""


class Metric(NamedTuple):
    name: str
    kind: Literal["gauge", "counter"]
    help: str
    """With its unit."""
    label: str | None = None
    """Name of the label that its samples differ by, if they do."""


def _table(*rows: Metric) -> dict[str, Metric]:
    return {row.name: row for row in rows}


METRICS = _table(
    Metric("trainwright_up", "gauge", "1 while the supervisor runs"),
    Metric("trainwright_ranks_alive", "gauge", "Local rank processes that run"),
    Metric("trainwright_peers_connected", "gauge", "Pods of the run that are connected, this one included (node 0 only)"),
    Metric("trainwright_unhealthy_node", "gauge", "Index of the node whose pod last ended with 201 (node 0 only)"),
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
    Metric("trainwright_checkpoint_stall_seconds", "gauge", "Seconds for which training stood still for the last checkpoint"),
    Metric("trainwright_checkpoint_failures", "counter", "Checkpoints that could not be committed"),
    Metric("trainwright_left_out_images", "counter", "Images that the pod's ranks left out because they cannot be decoded"),
    Metric("trainwright_attempt", "gauge", "Attempts at this identity so far, this one included"),
    Metric("trainwright_attempts_without_commit", "gauge",
           "Attempts in a row that began at the same commit, this one included; 0 once it has committed"),
    Metric("trainwright_goodput", "gauge", "Share of the time since the first attempt spent on steps done for the first time"),
    Metric("trainwright_phase", "gauge", "1 for what the pod's first rank does now, 0 for all else", label="phase"),
    Metric("trainwright_phase_seconds", "counter", "Seconds of this attempt by phase, those for steps done before as replaying",
           label="phase"),
    Metric("trainwright_down_seconds", "gauge", "Seconds since the first attempt in which none was at work"),
    Metric("trainwright_slowest_rank", "gauge", "Rank whose own part of a step takes longest (node 0 only)"),
    Metric("trainwright_slowest_rank_ratio", "gauge", "Its time over the median of all ranks (node 0 only)"),
    Metric("trainwright_slow_ranks", "gauge",
           "Ranks whose own part took above 1.3 times the median in at least 2 logging intervals in a row (node 0 only)"),
    Metric("trainwright_communication_seconds", "gauge",
           "Seconds of a step that go into collectives on the rank that waits for nobody (node 0 only)"),
    Metric("trainwright_data_wait_seconds", "gauge",
           "Seconds of a step for its data on the rank that waits for it longest (node 0 only)"),
    Metric("trainwright_preflight_tflops", "gauge", "Speed of a matrix product before training, 10^12 operations per second"),
    Metric("trainwright_preflight_share_of_median", "gauge", "Slowest matrix product of the pod's ranks over the median of all"),
    Metric("trainwright_preflight_memory_bytes_per_second", "gauge", "Bytes read and written by a copy in the device's memory"),
    Metric("trainwright_preflight_bus_bytes_per_second", "gauge",
           "Bus bandwidth of an all-reduce over all ranks before training"),
    Metric("trainwright_preflight_storage_seconds", "gauge", "Seconds to write a file durably, rename it and read it back"),
    Metric("trainwright_preflight_clock_skew_seconds", "gauge", "Seconds by which the clock is ahead of rank 0's, at the least"),
    Metric("trainwright_log_interval_steps", "gauge", "Optimizer steps between two that are reported"),
    Metric("trainwright_stall_limit_seconds", "gauge", "Seconds without a step, besides 3 logging intervals, that are no stall"),
    Metric("trainwright_goodput_limit", "gauge", "Share of an hour that new steps are to take, at the least"),
    Metric("trainwright_unsaved_limit_seconds", "gauge", "Seconds of training that a commit may be behind"),
    Metric("trainwright_unsaved_limit_steps", "gauge", "Optimizer steps that a commit may be behind"),
    Metric("trainwright_save_limit_seconds", "gauge", "Seconds that the grace period of a pod leaves for a save"),
    Metric("trainwright_attempts_without_commit_limit", "gauge", "Attempts in a row without a commit that are too many"),
    Metric("trainwright_attempts_limit", "gauge", "Restarts within an hour that are too many"),
    Metric("trainwright_pods_limit", "gauge", "Pods within an hour that are too many (only of pods that a restart replaces)"),
)


WandBName = Annotated[str, Field(min_length=1, max_length=128)]


class TensorBoard(Contract):
    """Event files in ``tensorboard/<identity>`` next to the checkpoints."""

    to: Literal["tensorboard"] = "tensorboard"
    """Event files."""


class WandB(Contract):
    """Weights & Biases. The key comes from the pod's environment, as ``WANDB_API_KEY``."""

    to: Literal["wandb"] = "wandb"
    """Weights & Biases."""
    project: WandBName
    """The project that holds the run."""
    entity: WandBName | None = None
    """Team or person that owns the project; default: that of the key."""
    mode: Literal["online", "offline"] = "online"
    """``offline`` writes to ``wandb`` next to the checkpoints, for ``wandb sync``."""


Sink = Annotated[TensorBoard | WandB, Field(discriminator="to")]


def sink_disagreements(metrics: Iterable[Sink]) -> list[str]:
    """Of a list with two sinks of one kind, the second would replace the first."""
    kinds = [sink.to for sink in metrics]
    return [f"metrics go to {kind} twice; keep one" for kind in dict.fromkeys(kinds) if kinds.count(kind) > 1]
