"""PrometheusRule: the alerts of one run."""

from __future__ import annotations

from typing import Any

from trainwright.cluster.monitoring import Monitoring
from trainwright.manifest.monitoring.alerts import ALERTS, Alert
from trainwright.manifest.monitoring.labels import lasting_labels, selected_by
from trainwright.manifest.monitoring.watched import watched
from trainwright.manifest.ownership import Owned
from trainwright.manifest.provenance import Why
from trainwright.plan import Resolution


def prometheus_rule(resolution: Resolution, monitoring: Monitoring) -> dict[str, Any]:
    """The alerts that the run serves the metrics for."""
    run, seen = resolution.run, watched(resolution)
    conditions = ((alert, alert.condition(seen)) for alert in ALERTS)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": Why(run.run, "run:/run", "one for all identities of the run"),
            "namespace": run.namespace,
            "labels": lasting_labels(resolution, selected_by(monitoring.rule_labels, "rule_labels")),
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


_RULE = "PrometheusRule/spec/groups/0/rules"

CONSTANTS = {
    "PrometheusRule": "alerts on the run, from the metrics that its own pods serve",
    "PrometheusRule/metadata": "named like the run, without a hash: it may change in place, and outlives an identity",
    "PrometheusRule/metadata/labels": "labels of the run, and those that the Prometheus selects by",
    "PrometheusRule/spec/groups": "one group a run: its alerts are evaluated together",
    _RULE: "only alerts that the run serves the metrics for",
    **{f"{_RULE}/{index}/labels": "who the alert is about, and for whom" for index in range(len(ALERTS))},
    **{f"{_RULE}/{index}/labels/severity": "nothing burns: training can resume; wake somebody by team, in Alertmanager's routes"
       for index in range(len(ALERTS))},
    **{f"{_RULE}/{index}/annotations": "what happened, what to do, and where there is more" for index in range(len(ALERTS))},
}
"""``Kind/path`` -> why the constants below it are as they are."""

OWNED = (
    Owned(r"/spec/groups.*", "the alerts, made from the run", "add a PrometheusRule of your own beside it"),
)
