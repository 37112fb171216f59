"""The objects that the Prometheus Operator reads: PodMonitor, who is scraped, and PrometheusRule, the alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.cluster.addons import Monitoring
from trainwright.findings.locate import escape
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.labels import RUN_LABEL, object_labels
from trainwright.manifest.monitoring.alerts import ALERTS, Alert
from trainwright.manifest.monitoring.series import POD_LABELS, monitored_run
from trainwright.manifest.provenance import Why
from trainwright.plan import Resolution


def selected_by(labels: Mapping[str, str], field: str) -> dict[str, Why]:
    """Labels that the profile lists under ``monitoring.<field>``."""
    reason = "the cluster's Prometheus selects by it"
    return {key: Why(value, f"cluster:/monitoring/{field}/{escape(key)}", reason) for key, value in labels.items()}


def pod_monitor(resolution: Resolution, monitoring: Monitoring) -> dict[str, Any]:
    """Every pod of every identity of the run, by the label that our own pod template sets.

    A ServiceMonitor would select Services by labels, and which those have is up to each operator.
    """
    run = resolution.run
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": Why(run.run, "run:/run", "one for all identities of the run"),
            "namespace": run.namespace,
            "labels": object_labels(run) | selected_by(monitoring.pod_monitor_labels, "pod_monitor_labels"),
        },
        "spec": {
            "selector": {"matchLabels": {RUN_LABEL: Why(run.run, "run:/run", "the run's pods, whatever their hash")}},
            "podTargetLabels": list(POD_LABELS),
            "podMetricsEndpoints": [
                {
                    "port": "http",
                    "path": "/metrics",
                    "interval": Why(monitoring.interval.canonical, "cluster:/monitoring/interval", "as the cluster profile says"),
                },
            ],
        },
    }


POD_MONITOR = ObjectKind(
    GroupKind("monitoring.coreos.com", "PodMonitor"),
    reasons={
        "": "tells Prometheus to scrape the run's pods",
        "/metadata": "named like the run, without a hash: it may change in place, and outlives an identity",
        "/metadata/labels": "labels of the run, and those that the Prometheus selects by",
        "/spec/selector": "the pods themselves, by a label of ours: operators label their Services each in their own way",
        "/spec/podTargetLabels": "every series says which run and which identity it is of",
        "/spec/podMetricsEndpoints": "the supervisor's port; a pod without a port of this name is left out",
    },
    owned=(
        Owned(
            r"/spec/(selector|namespaceSelector|podTargetLabels|podMetricsEndpoints|jobLabel).*",
            "who is scraped, and how",
            "change monitoring in the cluster profile",
        ),
    ),
    free=tuple(
        f"/spec/{field}"
        for field in (
            "attachMetadata", "bodySizeLimit", "keepDroppedTargets", "labelLimit", "labelNameLengthLimit",
            "labelValueLengthLimit", "sampleLimit", "scrapeClass", "scrapeProtocols", "targetLimit",
        )
    ),
)


def prometheus_rule(resolution: Resolution, monitoring: Monitoring) -> dict[str, Any]:
    """The alerts that the run serves the metrics for."""
    run, seen = resolution.run, monitored_run(resolution)
    conditions = ((alert, alert.condition(seen)) for alert in ALERTS)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": Why(run.run, "run:/run", "one for all identities of the run"),
            "namespace": run.namespace,
            "labels": object_labels(run) | selected_by(monitoring.rule_labels, "rule_labels"),
        },
        "spec": {
            "groups": [
                {
                    "name": f"trainwright.{run.run}",
                    "rules": [_rule(resolution, monitoring, alert, text) for alert, text in conditions if text is not None],
                },
            ],
        },
    }


def _rule(resolution: Resolution, monitoring: Monitoring, alert: Alert, condition: str) -> dict[str, Any]:
    run = resolution.run
    return {
        "alert": Why(alert.name, "trainwright", alert.when),
        "expr": Why(condition, "trainwright", alert.reason),
        "for": Why(alert.wait, "trainwright", alert.reason),
        "labels": {
            "severity": "warning",
            "namespace": run.namespace,
            "run": Why(run.run, "run:/run", "the run"),
            "team": Why(run.team, "run:/team", "who is told"),
        },
        "annotations": {
            "summary": alert.summary,
            "description": alert.action,
            **_runbook(monitoring, alert),
        },
    }


def _runbook(monitoring: Monitoring, alert: Alert) -> dict[str, Any]:
    """The alert's heading on the page, where the profile says where that can be read: a path would be no link."""
    if monitoring.runbooks is None:
        return {}
    link = f"{monitoring.runbooks}#{alert.name.lower()}"
    return {"runbook_url": Why(link, "cluster:/monitoring/runbooks", "where the page can be read")}


_SEVERITY = "nothing burns: training can resume; wake somebody by team, in Alertmanager's routes"
_RULE = "/spec/groups/0/rules"

PROMETHEUS_RULE = ObjectKind(
    GroupKind("monitoring.coreos.com", "PrometheusRule"),
    reasons={
        "": "alerts on the run, from the metrics that its own pods serve",
        "/metadata": "named like the run, without a hash: it may change in place, and outlives an identity",
        "/metadata/labels": "labels of the run, and those that the Prometheus selects by",
        "/spec/groups": "one group a run: its alerts are evaluated together",
        _RULE: "only alerts that the run serves the metrics for",
        **{f"{_RULE}/{index}/labels": "who the alert is about, and for whom" for index in range(len(ALERTS))},
        **{f"{_RULE}/{index}/labels/severity": _SEVERITY for index in range(len(ALERTS))},
        **{f"{_RULE}/{index}/annotations": "what happened, what to do, and where there is more" for index in range(len(ALERTS))},
    },
    owned=(
        Owned(r"/spec/groups.*", "the alerts, made from the run", "add a PrometheusRule of your own beside it"),
    ),
)
