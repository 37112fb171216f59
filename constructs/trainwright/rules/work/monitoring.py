"""Rules on how a run is watched: by the trainer itself, by Prometheus, and by those who get its metrics."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.cluster.addons import Monitoring
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.manifest.labels import MANAGED
from trainwright.manifest.monitoring import serves_metrics
from trainwright.model import changed_fields
from trainwright.plan import Resolution
from trainwright.run import BoostingWorkload, CommandWorkload, ScriptWorkload, TrainerWorkload
from trainwright_trainer.contract.metrics import WandB

WANDB_KEY = "WANDB_API_KEY"
"""The variable that Weights & Biases reads its key from."""


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
    """An object store has no volume to write a test file to."""
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


def metrics(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What the pods serve decides which alerts can watch them."""
    if context.cluster.monitoring is None:
        return
    where = context.locate.run("/workload/kind")
    if resolution.binding.replaces_command:
        yield found(
            "TW320",
            context.locate.run("/topology/kind"),
            "the operator starts its own program in the pods, which serves none of our metrics: no alert watches the run, and "
            "no dashboard shows it",
            "watch the metrics and the dashboard of Ray itself, and waive this; or use another topology",
        )
    elif not serves_metrics(resolution):
        yield found(
            "TW320",
            where,
            "no pod serves metrics: no alert watches the run, and no dashboard shows it",
            "use workload script, which puts the program under the supervisor, or accept it",
        )
    elif not isinstance(context.run.workload, TrainerWorkload | BoostingWorkload) and context.run.saved_by != "script":
        yield found(
            "TW321",
            where,
            "the program reports no steps: only restarts and idle GPUs raise an alert",
            "let the program call trainwright_trainer.run and write checkpoints: {by: script}, or watch its own log",
        )


def watched_namespace(context: Context) -> Iterator[Finding]:
    """The Prometheus must look where the run's objects are."""
    monitoring = context.cluster.monitoring
    if monitoring is None or monitoring.watches is None or context.run.namespace in monitoring.watches:
        return
    yield found(
        "TW322",
        context.locate.cluster("/monitoring/watches"),
        f"Prometheus does not look for monitors and rules in namespace {context.run.namespace}",
        f"add {context.run.namespace} here, once podMonitorNamespaceSelector and ruleNamespaceSelector of Prometheus select it",
    )


def selecting_labels(context: Context) -> Iterator[Finding]:
    """A label by which the cluster's monitoring selects may not be one that says something else."""
    if context.cluster.monitoring is None:
        return
    for pointer, key, value in _wanted(context.cluster.monitoring):
        if MANAGED.get(key, value) != value:
            yield found(
                "TW323",
                context.locate.cluster(pointer),
                f"label {key} is {MANAGED[key]} on every object that Trainwright makes, and the cluster's monitoring selects by "
                f"{key}: {value}",
                "select monitors, rules and dashboards by another label",
            )


def _wanted(monitoring: Monitoring) -> Iterator[tuple[str, str, str]]:
    """Pointer into the profile, key and value of each label."""
    for field in ("pod_monitor_labels", "rule_labels"):
        for key, value in getattr(monitoring, field).items():
            yield f"/monitoring/{field}/{escape(key)}", key, value
    if monitoring.dashboard:
        yield "/monitoring/dashboard/label", monitoring.dashboard.label, monitoring.dashboard.value


def key_of_weights_and_biases(context: Context) -> Iterator[Finding]:
    """Its package asks for the key when rank 0 opens the run, and the trainer goes on without a sink that fails."""
    run, work = context.run, context.run.trainer
    for index, sink in enumerate(work.metrics if work else ()):
        if isinstance(sink, WandB) and sink.mode == "online" and WANDB_KEY not in run.env:
            instead = "" if run.checkpoints.store else ", or `mode: offline`, and send them later with `wandb sync`"
            yield found(
                "TW213",
                context.locate.run(f"/workload/metrics/{index}"),
                f"metrics go to Weights & Biases, and env has no {WANDB_KEY}",
                f"write `env: {{{WANDB_KEY}: {{secret: NAME, key: KEY}}}}`{instead}",
            )


def beside_the_checkpoints(context: Context) -> Iterator[Finding]:
    """Files that grow while a run goes on, where only whole objects can be written."""
    run, work = context.run, context.run.trainer
    for index, sink in enumerate(work.metrics if work and run.checkpoints.store else ()):
        if not isinstance(sink, WandB) or sink.mode == "offline":
            where = context.locate.run(f"/workload/metrics/{index}")
            message = f"{sink.to} files lie beside the checkpoints and grow, and an object store takes whole objects only"
            yield found("TW213", where, message, "remove it, or keep checkpoints on a claim; Weights & Biases online works")


RUN = (
    needs_our_ranks, preflight_checks_something, preflight_of_a_volume, preflight_of_a_gpu, key_of_weights_and_biases,
    beside_the_checkpoints, watched_namespace, selecting_labels,
)
PLAN = (metrics,)
