"""Rules on what watches the ranks and checks their nodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.model import changed_fields
from trainwright.rules.context import Context
from trainwright.run import BoostingWorkload, CommandWorkload, ScriptWorkload


def needs_our_ranks(context: Context) -> Iterator[Finding]:
    """Nobody knows the steps of a program that is not ours, and it checks its nodes itself."""
    run = context.run
    if not isinstance(run.workload, ScriptWorkload | CommandWorkload):
        return
    for key, settings in (("watchdog", run.watchdog), ("preflight", run.preflight)):
        if changed_fields(settings):
            message = f"workload {run.workload.kind} does not read {key}"
            yield found("TW207", context.locate.run(f"/{key}"), message, "remove it; or use workload trainer")


def preflight_checks_something(context: Context) -> Iterator[Finding]:
    """Thresholds that nothing is compared with, on machines without GPUs."""
    preflight = context.run.preflight
    if preflight.when == "on-gpus" and preflight.thresholds and not context.run.topology.needs().gpus_per_node:
        thresholds = " and ".join(preflight.thresholds)
        message = f"preflight checks nodes with GPUs, and the run has none: nothing is compared with {thresholds}"
        yield found("TW207", context.locate.run("/preflight"), message, "add `when: always`, or remove it")


def preflight_of_a_volume(context: Context) -> Iterator[Finding]:
    """There is no volume to write a file to."""
    run = context.run
    if run.preflight.max_storage is not None and run.checkpoints.store:
        message = "preflight writes no file to an object store: nothing is compared with max_storage"
        yield found("TW207", context.locate.run("/preflight/max_storage"), message, "remove it")


def preflight_of_a_gpu(context: Context) -> Iterator[Finding]:
    """XGBoost has no arithmetic to time a GPU with, and the trainer refuses to compare with nothing (10)."""
    run = context.run
    if not isinstance(run.workload, BoostingWorkload) or not run.topology.needs().gpus_per_node or run.preflight.when == "never":
        return
    for key in ("min_tflops", "min_share_of_median", "min_memory_gigabytes_per_second"):
        if key in run.preflight.thresholds:
            message = f"preflight of workload boosting checks no GPU: nothing is compared with {key}"
            yield found("TW207", context.locate.run(f"/preflight/{key}"), message, "remove it")


RUN = (needs_our_ranks, preflight_checks_something, preflight_of_a_volume, preflight_of_a_gpu)
