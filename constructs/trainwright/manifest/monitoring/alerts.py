"""The alerts on the runs of a namespace: when each fires, why at that number, and what to do then.

Every condition gives one sample an identity of a run, so that an edited run, which starts while the old one still saves, is
judged on its own. What a run may do follows from its specification: its pods serve that as limits beside what they measure, and a
run that serves no limit of a kind raises no alert of it.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import NamedTuple

from trainwright.manifest.monitoring.series import BY, IDENTITY, RUN, RUN_INFO, Series
from trainwright_trainer.contract.layout import EXIT_MARGIN_SECONDS
from trainwright_trainer.contract.limits import (
    ATTEMPTS_LIMIT,
    EMPTY_ATTEMPTS,
    EMPTY_ATTEMPTS_LIMIT,
    GOODPUT,
    GOODPUT_LIMIT,
    LOG_INTERVAL,
    LOG_INTERVALS,
    MISSED_SAVES,
    PODS_LIMIT,
    RESTARTS,
    SAVE_LIMIT,
    SAVES,
    STALL_LIMIT,
    STALL_SECONDS,
    UNSAVED_SECONDS_LIMIT,
    UNSAVED_STEPS_LIMIT,
)

SEEN = "15m"
"""The longest gap of a run that restarts: a Job waits up to six minutes between two pods."""
FIRST_STEP_MINUTES = 30
IDLE_PERCENT = 5


class Alert(NamedTuple):
    """One alert, in words and as a condition."""

    name: str
    when: str
    """When it fires, for the table of the docs."""
    wait: str
    """How long the condition must hold (``for``)."""
    summary: str
    """One line for the person on call, with Prometheus' templates."""
    action: str
    """What to do."""
    reason: str
    """Why at this number."""
    condition: Callable[[Series], str]
    """PromQL, with the labels of the run and its identity."""
    of_gpus: bool = False
    """Whether it asks dcgm-exporter."""

    def expression(self, series: Series) -> str:
        """The condition, with what is known of the run as labels: who is told, and how urgently."""
        gpus = ',gpus="whole"' if self.of_gpus else ""
        info = f'{RUN_INFO}{{namespace="{series.namespace}"{gpus}}}'
        return f"(\n{indent(self.condition(series), '  ')}) * on ({RUN}) group_left (team, severity) {info}\n"


def _stalled_step(series: Series) -> str:
    last, pace = series.highest("trainwright_last_step_timestamp_seconds"), series.highest("trainwright_step_seconds")
    patience = f"{series.highest(STALL_LIMIT)}\n    + {LOG_INTERVALS} * {series.highest(LOG_INTERVAL)} * {pace}"
    return f"time() - {last}\n  > {patience}\n"


def _no_first_step(series: Series) -> str:
    """A program that reports no steps has no limit for them."""
    alive, last = series.highest("trainwright_ranks_alive"), series.highest("trainwright_last_step_timestamp_seconds")
    return f"{alive} > 0\n  and {series.highest(STALL_LIMIT)}\n  unless {last}\n"


def _low_goodput(series: Series) -> str:
    step, pace = series.select("trainwright_step"), series.select("trainwright_step_seconds")
    return (
        f"(\n    max {BY} (max_over_time({step}[10m]))\n"
        f"  - max {BY} (max_over_time({step}[10m] offset 1h))\n"
        f"  + {series.highest(LOG_INTERVAL)}\n)\n"
        f"  * max {BY} (avg_over_time({pace}[1h]))\n"
        f"  / 3600 < {series.highest(GOODPUT_LIMIT)}\n"
    )


def _failing_checkpoints(series: Series) -> str:
    step, committed = series.highest("trainwright_step"), series.highest("trainwright_committed_step")
    failures, pace = series.select("trainwright_checkpoint_failures"), series.highest("trainwright_step_seconds")
    unsaved = f"({step}\n    - ({committed} or 0 * {step}))"
    lately, before = f"max_over_time({failures}[30m])", f"max_over_time({failures}[{SEEN}] offset 30m)"
    return "or\n  ".join([
        f"max {BY} ({lately} unless {lately} <= {before}) > 0\n",  # it has grown since
        f"{unsaved}\n    * {pace} > {series.highest(UNSAVED_SECONDS_LIMIT)}\n",
        f"{unsaved}\n    > {series.highest(UNSAVED_STEPS_LIMIT)}\n",
        _attempts_without_commit(series),
    ])


def _attempts_without_commit(series: Series) -> str:
    """Failed saves end an attempt, at times before a scrape sees them, and the next one starts over from the last commit.

    Quicker loops have an alert of their own: they may not live long enough to save at all.
    """
    attempts = series.highest("trainwright_attempts_without_commit", SEEN)
    return (
        f"(\n    {attempts} >= {series.highest(EMPTY_ATTEMPTS_LIMIT, SEEN)}\n"
        f"  ) unless (\n{indent(_restart_loop(series), '    ')}  )\n"
    )


def _save_beyond_grace(series: Series) -> str:
    return f"{series.highest('trainwright_checkpoint_save_seconds')} > {series.highest(SAVE_LIMIT)}\n"


def _restart_loop(series: Series) -> str:
    """An identity that restarted too often within an hour, and that was there recently. One of two counts is enough.

    The ledger's count works wherever an attempt began: in new pods (an Indexed Job), under the old names and addresses (a
    PyTorchJob on the node's network), or with no more than a new launcher (an MPIJob). It is the latest number of an attempt,
    less the first one of the hour: one that no scrape saw is counted all the same. The count of series holds where no attempt
    begins, or nobody keeps a ledger: a pod that comes back under a new name or address is a series of its own.
    """
    attempt, pods = series.select("trainwright_attempt"), series.select(PODS_LIMIT)
    return (
        f"{series.highest('trainwright_attempt', SEEN)}\n"
        f"  - min {BY} (min_over_time({attempt}[1h]))\n"
        f"  >= {series.highest(ATTEMPTS_LIMIT, SEEN)}\n"
        f"or\ncount {BY} (max_over_time({pods}[1h]))\n"
        f"  >= {series.highest(PODS_LIMIT, SEEN)}\n"
    )


def _gpu_idle(series: Series) -> str:
    """Whether ranks run is asked of the whole run: under mpirun the launcher has all ranks, and the workers have the GPUs."""
    alive = series.highest("trainwright_ranks_alive")
    return (
        f"(\n  min by (pod) (\n    {series.gpu_utilization('10m')}\n  ) < {IDLE_PERCENT}\n"
        f") * on (pod) group_left ({RUN}, {IDENTITY}) (\n"
        f"  max by (pod, {RUN}, {IDENTITY}) ({series.select('trainwright_up')})\n"
        f"    and on ({RUN}, {IDENTITY}) {alive} > 0\n)\n"
    )


_WHO = f"{{{{ $labels.{IDENTITY} }}}}"

ALERTS = (
    Alert(
        name="TrainwrightStalledStep",
        when=f"no step for {STALL_SECONDS // 60} minutes, {LOG_INTERVALS} logging intervals and {SAVES} saves",
        wait="5m",
        summary=f"{_WHO} has not finished a step for {{{{ $value | humanizeDuration }}}}",
        action=(
            "The ranks live but do not advance. Find the one that the others wait for: its log ends first, or its GPU "
            "does something else. A hang in a collective shows full utilization on every other GPU. Delete its pod: all "
            "ranks come back together from the last commit."
        ),
        reason=(
            "an evaluation or a slow save between two steps is no stall, and a run that hangs is ended by the trainer "
            "within minutes: what is left then does not end by itself"
        ),
        condition=_stalled_step,
    ),
    Alert(
        name="TrainwrightNoFirstStep",
        when="ranks run and none has finished its first step",
        wait=f"{FIRST_STEP_MINUTES}m",
        summary=f"{_WHO} runs and has not finished a first step",
        action=(
            "The ranks have started and hang in rendezvous, in reading data or in restoring a checkpoint. The end of each "
            "pod's log shows how far it came. For a rendezvous look at the network between the pods and at NCCL's "
            "interface; for the others at the volume."
        ),
        reason=(
            "restoring a terabyte at 1 GB/s takes 17 minutes; pods that wait for peers have no ranks yet, and a budget of "
            "their own"
        ),
        condition=_no_first_step,
    ),
    Alert(
        name="TrainwrightLowGoodput",
        when=f"steps that were new took less than {GOODPUT:.0%} of the last hour",
        wait="30m",
        summary=f"{_WHO} spent only {{{{ $value | humanizePercentage }}}} of the last hour on new steps",
        action=(
            "The rest went into restarts, steps done twice, saves and evaluations. Compare the panels of steps and of "
            "seconds per save. Save less often or evaluate on fewer batches, or end what restarts the pods."
        ),
        reason=(
            "saves and evaluations rarely take a tenth; a quarter of the GPUs' time is worth a look. One logging interval "
            "is granted, because a step is reported that often"
        ),
        condition=_low_goodput,
    ),
    Alert(
        name="TrainwrightFailingCheckpoints",
        when=f"a save failed, {MISSED_SAVES} in a row are missing, or {EMPTY_ATTEMPTS} attempts have brought none",
        wait="5m",
        summary=f"{_WHO} does not commit checkpoints",
        action=(
            "A restart now would lose everything since the last commit. Look at the claim first: space, quota, "
            "permissions, then at checkpoint_failed in the log of rank 0, or the termination message of a pod that ended with "
            "StorageUnavailable. Training goes on until checkpoints.failed_saves in a row have failed. One more ends the "
            "attempt, as a failed last save does, and the next attempt starts from the last commit by itself."
        ),
        reason="one save may be late because it is slow; after two the interval that the run asked for does not hold",
        condition=_failing_checkpoints,
    ),
    Alert(
        name="TrainwrightSaveBeyondGrace",
        when="the last save took longer than the grace period of a pod leaves for one",
        wait="5m",
        summary=f"{_WHO} takes {{{{ $value | humanizeDuration }}}} to save, longer than its pods' grace period leaves",
        action=(
            "Training goes on, and its saves are good. But a run that is told to end now, by a drain or a preemption, is "
            "killed before its save is committed, and trains again what came after the last commit. See what slows the "
            "volume down. If it stays so, write in the cluster profile the write_mebibytes_per_second that the claim really "
            "has: the grace period follows from it, as a new run that resumes. A shorter checkpoints.every loses less."
        ),
        reason=(
            f"the trainer keeps {EXIT_MARGIN_SECONDS:g} seconds of the grace period for ending; a save that misses it once "
            "may miss it when it matters"
        ),
        condition=_save_beyond_grace,
    ),
    Alert(
        name="TrainwrightRestartLoop",
        when=f"the run began anew {RESTARTS} times in an hour, an elastic one {2 * RESTARTS} times",
        wait="1m",
        summary=f"{_WHO} keeps starting again",
        action=(
            "Read why the pods ended: `kubectl describe pod` shows the termination message, and attempts.jsonl beside the "
            "checkpoints has one line an attempt. The table of exit codes says what each code asks of you. A preemption "
            "in a loop is the cluster's, anything else the run's."
        ),
        reason=(
            "an incident brings all ranks down once, and those of an elastic run once more when the pod is back; three within an "
            "hour have one cause, and it is still there"
        ),
        condition=_restart_loop,
    ),
    Alert(
        name="TrainwrightGpuIdle",
        when=f"a GPU of a run with running ranks is below {IDLE_PERCENT} %",
        wait="30m",
        summary="A GPU of {{ $labels.pod }} is at {{ $value | humanize }} %",
        action=(
            "The pod holds a GPU that does nothing. If all of its GPUs idle, the ranks wait: for data, for a volume, or "
            "for a start that does not happen. If only one does, a rank does not use the device that it was given, or "
            "there are fewer ranks than GPUs."
        ),
        reason=(
            "ranks that train keep a GPU busy most of the time, waiting in a collective included; below 5 % over 10 "
            "minutes there is no work, and start-up is over after half an hour"
        ),
        condition=_gpu_idle,
        of_gpus=True,
    ),
)
"""Every alert, in the order of the docs."""
