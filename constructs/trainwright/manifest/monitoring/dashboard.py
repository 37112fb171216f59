"""The Grafana dashboard of a namespace's runs, in a ConfigMap that Grafana's sidecar loads.

Its panels together show every metric but the limits, which the alerts compare them with.
"""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

from trainwright.cluster.addons import Dashboard, Monitoring
from trainwright.identity import short_hash
from trainwright.manifest.labels import MANAGED
from trainwright.manifest.monitoring.series import IDENTITY, RUN, Series
from trainwright.manifest.provenance import Why
from trainwright_trainer.contract.metrics import METRICS


class Query(NamedTuple):
    expression: str
    legend: str


class Panel(NamedTuple):
    """One metric over time."""

    title: str
    unit: str
    """As Grafana calls it: ``s``, ``short``, ``percentunit``."""
    metric: str
    form: Literal["run", "pod", "age", "failures", "phase", "phases"] = "run"
    """One curve an identity, one a pod, the seconds since a time, the most that one attempt had in the last hour, the present
    phase, or the share of the time that goes into each."""

    @property
    def help(self) -> str:
        """The table's own words."""
        return METRICS[self.metric].help

    def query(self, series: Series) -> Query:
        """What it draws, for the runs and identities that are chosen."""
        identity, pod = f"{{{{{IDENTITY}}}}}", "{{pod}}"
        match self.form:
            case "run":
                return Query(series.highest(self.metric), identity)
            case "pod":
                return Query(f"max by (pod) ({series.select(self.metric)})", pod)
            case "age":
                return Query(f"time() - {series.highest(self.metric)}", identity)
            case "failures":
                return Query(series.highest(self.metric, "1h"), identity)
            case "phase" | "phases":
                selected = series.select(self.metric)
                value = f"rate({selected}[10m])" if self.form == "phases" else selected
                return Query(f"max by ({RUN}, {IDENTITY}, phase) ({value})", f"{identity} {{{{phase}}}}")


class GpuPanel(Panel):
    """What dcgm-exporter knows of the pods' GPUs."""

    @property
    def help(self) -> str:
        return "Share of the time in which a GPU did anything at all, waiting in a collective included, in percent"

    def query(self, series: Series) -> Query:
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
    Panel("Images left out", "short", "trainwright_left_out_images", "pod"),
    Panel("Stand-still for a save", "s", "trainwright_checkpoint_stall_seconds"),
    Panel("Goodput", "percentunit", "trainwright_goodput"),
    Panel("Phase", "short", "trainwright_phase", "phase"),
    Panel("Time by phase", "percentunit", "trainwright_phase_seconds", "phases"),
    Panel("Attempt", "short", "trainwright_attempt"),
    Panel("Attempts without a commit", "short", "trainwright_attempts_without_commit"),
    Panel("Time between attempts", "s", "trainwright_down_seconds"),
    Panel("Slowest rank", "short", "trainwright_slowest_rank"),
    Panel("Slowest rank over median", "short", "trainwright_slowest_rank_ratio"),
    Panel("Slow ranks", "short", "trainwright_slow_ranks"),
    Panel("Communication in a step", "s", "trainwright_communication_seconds"),
    Panel("Wait for data in a step", "s", "trainwright_data_wait_seconds"),
    Panel("Matrix product, 10^12 op/s", "short", "trainwright_preflight_tflops", "pod"),
    Panel("Matrix product over median", "percentunit", "trainwright_preflight_share_of_median", "pod"),
    Panel("Memory bandwidth", "Bps", "trainwright_preflight_memory_bytes_per_second", "pod"),
    Panel("All-reduce bus bandwidth", "Bps", "trainwright_preflight_bus_bytes_per_second", "pod"),
    Panel("Write and read a file", "s", "trainwright_preflight_storage_seconds", "pod"),
    Panel("Clock ahead of rank 0's", "s", "trainwright_preflight_clock_skew_seconds", "pod"),
    Panel("Pods connected", "short", "trainwright_peers_connected"),
    Panel("Supervisors", "short", "trainwright_up", "pod"),
    Panel("Ranks alive", "short", "trainwright_ranks_alive", "pod"),
    Panel("Node that was last unhealthy", "short", "trainwright_unhealthy_node"),
)
"""In the order of the page, three a row: what is learnt, how fast, how safe, and who is there."""
LEAST_BUSY_GPU = GpuPanel("Least busy GPU", "percent", "trainwright_up")
"""The last one, where dcgm-exporter is scraped."""


COLUMNS, WIDTH, HEIGHT = 3, 8, 8
"""Grafana's grid is 24 wide."""
SCHEMA = 39
"""Of Grafana 10.3; newer ones read it and upgrade it in memory."""


def dashboard_map(namespace: str, monitoring: Monitoring, grafana: Dashboard) -> dict[str, Any]:
    """A ConfigMap with one file, whose name is unique in the cluster: the sidecar puts the files of all namespaces into one
    folder.
    """
    label = {grafana.label: Why(grafana.value, "cluster:/monitoring/dashboard", "Grafana's sidecar looks for it")}
    place = Why(namespace, "trainwright", "beside its runs: the sidecar looks in every namespace")
    if grafana.namespace:
        place = Why(grafana.namespace, "cluster:/monitoring/dashboard/namespace", "where Grafana's sidecar looks")
    name = f"trainwright-{namespace}"
    text = Why(_text(_dashboard(namespace, monitoring)), "trainwright", "a panel for every metric")
    kind = "a Grafana dashboard of the runs of this namespace"
    return {
        "apiVersion": Why("v1", "trainwright", kind),
        "kind": Why("ConfigMap", "trainwright", kind),
        "metadata": Why(
            {"name": name, "namespace": place, "labels": {**MANAGED, **label}},
            "trainwright",
            "named after the namespace: dashboards of several may lie in one",
        ),
        "data": Why({f"{name}.json": text}, "trainwright", "Grafana reads files that end with .json"),
    }


def _dashboard(namespace: str, monitoring: Monitoring) -> dict[str, Any]:
    shown = Series(namespace, f',{RUN}=~"$run",{IDENTITY}=~"$identity"')
    panels = (*PANELS, LEAST_BUSY_GPU) if monitoring.dcgm else PANELS
    up = Series(namespace).select("trainwright_up")
    of_runs = Series(namespace, f',{RUN}=~"$run"').select("trainwright_up")
    chosen = [_variable("run", "Run", up, RUN), _variable("identity", "Identity", of_runs, IDENTITY)]
    return {
        "uid": f"trainwright-{short_hash(namespace)}",
        "title": f"Training runs ({namespace})",
        "tags": ["trainwright"],
        "schemaVersion": SCHEMA,
        "editable": False,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), *chosen]},
        "panels": [_panel(index, panel, panel.query(shown)) for index, panel in enumerate(panels)],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(name: str, label: str, series: str, values_of: str) -> dict[str, Any]:
    """What to show of a label: an edited run has a new identity, and its curves go on where the old ones end."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _source(),
        "query": {"query": f"label_values({series}, {values_of})", "refId": name},
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
