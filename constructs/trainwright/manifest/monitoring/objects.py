"""The objects that the Prometheus Operator reads: PodMonitor, who is scraped, and PrometheusRule, the alerts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trainwright.cluster.addons import Monitoring
from trainwright.findings.locate import escape
from trainwright.manifest.kinds import GroupKind, ObjectKind
from trainwright.manifest.labels import MANAGED, ROLE_LABEL
from trainwright.manifest.monitoring.alerts import ALERTS, Alert
from trainwright.manifest.monitoring.series import LABELS, RUN, RUN_INFO, Series, WatchedRun, discovered
from trainwright.manifest.provenance import Why
from trainwright_trainer.contract.exit_codes import DIAGNOSE_COMMAND

NAME = "trainwright"
"""Of both objects: there is one of each in a namespace."""


def selected_by(labels: Mapping[str, str], field: str) -> dict[str, Why]:
    """Labels that the profile lists under ``monitoring.<field>``."""
    reason = "the cluster's Prometheus selects by it"
    return {key: Why(value, f"cluster:/monitoring/{field}/{escape(key)}", reason) for key, value in labels.items()}


def pod_monitor(namespace: str, monitoring: Monitoring) -> dict[str, Any]:
    """Every pod of every run, by a label that our own pod template sets.

    A ServiceMonitor would select Services by labels, and which those have is up to each operator.
    """
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {**MANAGED, **selected_by(monitoring.pod_monitor_labels, "pod_monitor_labels")},
        },
        "spec": {
            "selector": {"matchExpressions": [{"key": ROLE_LABEL, "operator": "Exists"}]},
            "podMetricsEndpoints": [
                {
                    "port": "http",
                    "path": "/metrics",
                    "interval": Why(monitoring.interval.canonical, "cluster:/monitoring/interval", "as the cluster profile says"),
                    "relabelings": [
                        {"sourceLabels": [discovered(label)], "targetLabel": name} for name, label in LABELS.items()
                    ],
                },
            ],
        },
    }


POD_MONITOR = ObjectKind(
    GroupKind("monitoring.coreos.com", "PodMonitor"),
    reasons={
        "": "tells Prometheus to scrape the pods of the runs",
        "/metadata": "one for all runs of the namespace",
        "/metadata/labels": "whose it is, and what the Prometheus selects by",
        "/spec/selector": "the pods themselves, by a label of ours: operators label their Services each in their own way",
        "/spec/podMetricsEndpoints": "the supervisor's port; a pod without a port of this name is left out",
        "/spec/podMetricsEndpoints/0/relabelings": "every series says which run and which identity of it it is of",
    },
)


def prometheus_rule(namespace: str, monitoring: Monitoring, runs: Sequence[WatchedRun]) -> dict[str, Any]:
    """What is known of each run, then the alerts on all of them."""
    alerts = [_alert(namespace, monitoring, alert) for alert in ALERTS if monitoring.dcgm or not alert.of_gpus]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {**MANAGED, **selected_by(monitoring.rule_labels, "rule_labels")},
        },
        "spec": {
            "groups": [
                {"name": "trainwright.runs", "rules": [_known(namespace, run) for run in runs]},
                {"name": "trainwright.alerts", "rules": alerts},
            ],
        },
    }


def with_runs_of(manifest: dict[str, Any], before: Mapping[str, Any] | None, runs: Collection[str]) -> dict[str, Any]:
    """A PrometheusRule with what an earlier one knows of some runs; any other object as it is."""
    if before is None or GroupKind.of(manifest) != PROMETHEUS_RULE.key:
        return manifest
    known, alerts = manifest["spec"]["groups"]
    earlier = (rule for group in before["spec"]["groups"] for rule in group["rules"] if "record" in rule)
    kept = [dict(rule) for rule in earlier if rule["labels"].get(RUN) in runs]
    rules = sorted([*known["rules"], *kept], key=lambda rule: str(rule["labels"][RUN]))
    return {**manifest, "spec": {"groups": [{**known, "rules": rules}, alerts]}}


def _known(namespace: str, run: WatchedRun) -> dict[str, Any]:
    """A series of one run, whose labels its alerts take over: labels on its pods would give it a new identity."""
    reason = f"as run {run.run} says"
    return {
        "record": RUN_INFO,
        "expr": "vector(1)",
        "labels": {
            "namespace": namespace,
            RUN: Why(run.run, "trainwright", "the run, as all of its series say"),
            "team": Why(run.team, "trainwright", reason),
            "severity": Why("warning", "trainwright", _SEVERITY),
            "gpus": Why(run.gpus, "trainwright", "whether dcgm-exporter can tell how busy its GPUs are"),
        },
    }


def _alert(namespace: str, monitoring: Monitoring, alert: Alert) -> dict[str, Any]:
    return {
        "alert": Why(alert.name, "trainwright", alert.when),
        "expr": Why(alert.expression(Series(namespace)), "trainwright", alert.reason),
        "for": Why(alert.wait, "trainwright", alert.reason),
        "labels": Why({"namespace": namespace}, "trainwright", "besides those of the run"),
        "annotations": Why(
            {"summary": alert.summary, "description": f"{alert.action} {_MORE}", **_runbook(monitoring, alert)},
            "trainwright",
            "what happened, what to do, and where there is more",
        ),
    }


def _runbook(monitoring: Monitoring, alert: Alert) -> dict[str, Any]:
    """The alert's heading on the page, where the profile says where that can be read: a path would be no link."""
    if monitoring.runbooks is None:
        return {}
    link = f"{monitoring.runbooks}#{alert.name.lower()}"
    return {"runbook_url": Why(link, "cluster:/monitoring/runbooks", "where the page can be read")}


_MORE = f"`{' '.join(DIAGNOSE_COMMAND)} {{{{ $labels.{RUN} }}}}` says what its objects and pods tell."
_SEVERITY = "nothing burns: a run that saves can resume; wake somebody by team, in Alertmanager's routes"

PROMETHEUS_RULE = ObjectKind(
    GroupKind("monitoring.coreos.com", "PrometheusRule"),
    reasons={
        "": "alerts on the runs, from the metrics that their own pods serve",
        "/metadata": "one for all runs of the namespace",
        "/metadata/labels": "whose it is, and what the Prometheus selects by",
        "/spec/groups": "what is known of each run, and the alerts that take it over",
    },
)
