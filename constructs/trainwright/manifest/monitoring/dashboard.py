"""The Grafana dashboard of one run, in a ConfigMap that Grafana's sidecar loads."""

from __future__ import annotations

import json
from typing import Any

from trainwright.cluster.monitoring import Dashboard, Monitoring
from trainwright.manifest.monitoring.labels import lasting_labels
from trainwright.manifest.monitoring.panels import PANELS, Panel, Query
from trainwright.manifest.monitoring.series import IDENTITY, Series
from trainwright.manifest.monitoring.watched import Watched, watched
from trainwright.manifest.provenance import Why
from trainwright.plan import Resolution
from trainwright.plan.checkpoint import short_hash

COLUMNS, WIDTH, HEIGHT = 3, 8, 8
"""Grafana's grid is 24 wide."""
SCHEMA = 39
"""Of Grafana 10.3; newer ones read it and upgrade it in memory."""


def dashboard_map(resolution: Resolution, monitoring: Monitoring, grafana: Dashboard) -> dict[str, Any]:
    """One file, whose name is unique in the cluster: the sidecar puts the files of all namespaces into one folder."""
    run = resolution.run
    label = {grafana.label: Why(grafana.value, "cluster:/monitoring/dashboard", "Grafana's sidecar looks for it")}
    namespace = Why(run.namespace, "run:/namespace", "beside its run: the sidecar looks in every namespace")
    if grafana.namespace:
        namespace = Why(grafana.namespace, "cluster:/monitoring/dashboard/namespace", "where Grafana's sidecar looks")
    key = f"trainwright-{run.namespace}-{run.run}.json"
    text = Why(_text(_dashboard(watched(resolution))), "trainwright", "a panel for every metric that the run serves")
    kind = "a Grafana dashboard of the run"
    return {
        "apiVersion": Why("v1", "trainwright", kind),
        "kind": Why("ConfigMap", "trainwright", kind),
        "metadata": Why(
            {
                "name": Why(run.run, "run:/run", "one for all identities of the run"),
                "namespace": namespace,
                "labels": lasting_labels(resolution, label),
            },
            "trainwright",
            "named like the run, without a hash: it may change in place, and outlives an identity",
        ),
        "data": Why({key: text}, "trainwright", "Grafana reads files that end with .json"),
    }


def _dashboard(run: Watched) -> dict[str, Any]:
    shown = Series(run.series.run, run.series.namespace, identity="$identity")
    panels = [(panel, query) for panel in PANELS if (query := panel.query(run, shown)) is not None]
    return {
        "uid": f"trainwright-{short_hash([run.series.namespace, run.series.run])}",
        "title": f"{run.series.run} ({run.series.namespace})",
        "tags": ["trainwright"],
        "schemaVersion": SCHEMA,
        "editable": False,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), _identity(run.series)]},
        "panels": [_panel(index, panel, query) for index, (panel, query) in enumerate(panels)],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _identity(series: Series) -> dict[str, Any]:
    """Which identities to show: an edited run has a new one, and its curves go on where the old ones end."""
    query = f"label_values({series.select('trainwright_up')}, {IDENTITY})"
    return {
        "name": "identity",
        "label": "Identity",
        "type": "query",
        "datasource": _source(),
        "query": {"query": query, "refId": "identity"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panel(index: int, panel: Panel, query: Query) -> dict[str, Any]:
    row, column = divmod(index, COLUMNS)
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.help,
        "datasource": _source(),
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [{"refId": "A", "expr": query.expression, "legendFormat": query.legend}],
    }


def _source() -> dict[str, Any]:
    return {"type": "prometheus", "uid": "${datasource}"}


def _text(dashboard: dict[str, Any]) -> str:
    """JSON with one panel a line, so that a review shows which panel changed."""
    lines = []
    for key, value in dashboard.items():
        text = json.dumps(value, ensure_ascii=False)
        if key == "panels":
            text = "[\n    " + ",\n    ".join(json.dumps(panel, ensure_ascii=False) for panel in value) + "\n  ]"
        lines.append(f'  "{key}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"
