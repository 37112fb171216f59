"""Rules on how a run is watched."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.cluster.monitoring import Monitoring
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.locate import escape
from trainwright.manifest.monitoring import serving_pods
from trainwright.plan import Resolution
from trainwright.rules.context import Context
from trainwright.run import BoostingWorkload, TrainerWorkload

OWN_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "trainwright.dev/team")
"""Labels of every object of a run."""


def metrics(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What the pods serve decides which objects and alerts there are."""
    if context.cluster.monitoring is None:
        return
    where = context.locate.run("/workload/kind")
    if resolution.binding.replaces_command:
        yield found(
            "TW320",
            context.locate.run("/topology/kind"),
            "the operator starts its own program in the pods, which serves none of our metrics: there are no PodMonitor, "
            "no alerts and no dashboard",
            "watch the metrics and the dashboard of Ray itself, and waive this; or use another topology",
        )
    elif not serving_pods(resolution):
        yield found(
            "TW320",
            where,
            "no pod serves metrics: there are no PodMonitor, no alerts and no dashboard",
            "use workload script, which puts the program under the supervisor, or accept it",
        )
    elif not isinstance(context.run.workload, TrainerWorkload | BoostingWorkload):
        yield found(
            "TW321",
            where,
            "the program reports no steps: only restarts and idle GPUs raise an alert",
            "use workload trainer where it can do the job, or watch the program's own log",
        )


def watched_namespace(context: Context) -> Iterator[Finding]:
    """The Prometheus must look where the run's objects are."""
    monitoring = context.cluster.monitoring
    if monitoring is None or monitoring.watches is None or context.run.namespace in monitoring.watches:
        return
    yield found(
        "TW322",
        context.locate.cluster("/monitoring/watches"),
        f"the Prometheus does not look for monitors and rules in namespace {context.run.namespace}",
        f"add {context.run.namespace} once podMonitorNamespaceSelector and ruleNamespaceSelector select it",
    )


def selecting_labels(context: Context) -> Iterator[Finding]:
    """A label by which the cluster's monitoring selects may not be one that says something else of the run."""
    if context.cluster.monitoring is None:
        return
    for pointer, key, value in _wanted(context.cluster.monitoring):
        if key in OWN_LABELS:
            yield found(
                "TW323",
                context.locate.cluster(pointer),
                f"label {key} names the run on its own objects",
                "select monitors, rules and dashboards by another label",
            )
        elif context.run.labels.get(key, value) != value:
            yield found(
                "TW323",
                context.locate.run(f"/labels/{escape(key)}"),
                f"label {key} is {context.run.labels[key]} here, and the cluster's monitoring selects by {key}: {value}",
                f"remove it, or write {key}: {value}",
            )


def _wanted(monitoring: Monitoring) -> Iterator[tuple[str, str, str]]:
    """Pointer into the profile, key and value of each label."""
    for field in ("pod_monitor_labels", "rule_labels"):
        for key, value in getattr(monitoring, field).items():
            yield f"/monitoring/{field}/{escape(key)}", key, value
    if monitoring.dashboard:
        yield "/monitoring/dashboard/label", monitoring.dashboard.label, monitoring.dashboard.value


RUN = (watched_namespace, selecting_labels)
PLAN = (metrics,)
