"""Monitoring of a namespace: what is scraped is served, and what is asked of Prometheus is in the trainer's table."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import Data, command, compiled, script
from tests.compiler.operators.test_xgboost_job import OPERATORS
from tests.served import LIMITS, SUPERVISED

from trainwright.cluster.addons import Monitoring
from trainwright.compile import CompiledRun
from trainwright.manifest.kinds import GroupKind, reasons_by_kind
from trainwright.manifest.labels import MANAGED
from trainwright.manifest.monitoring import KINDS, WatchedRun, monitoring_objects, watched, with_runs_of
from trainwright.manifest.monitoring.alerts import ALERTS
from trainwright.manifest.monitoring.dashboard import PANELS
from trainwright.manifest.monitoring.series import GPU_UTILIZATION, IDENTITY, RUN_INFO
from trainwright.manifest.plain import problems
from trainwright.manifest.provenance import Tree, nearest, split
from trainwright.rules.pods.objects import schema_problems
from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.observe.metrics import Measurements

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "monitoring.md"
CRDS = os.environ.get("TRAINWRIGHT_CRDS", "")

SELECTED = {"release": "kube-prometheus-stack"}
EVERYTHING = {
    "kind": "prometheus-operator", "pod_monitor_labels": SELECTED, "rule_labels": SELECTED, "dashboard": {}, "dcgm": True,
    "runbooks": "https://docs.example.com/monitoring",
}
TRAINER: Data = {}
SCRIPT = script("python", "train.py")


def trees(*runs: CompiledRun) -> list[Tree]:
    """Of runs of one namespace."""
    first = runs[0].resolution
    seen = [one for run in runs if (one := watched(run.resolution))]
    return monitoring_objects(first.cluster, first.run.namespace, seen)


def objects_of(*runs: CompiledRun) -> dict[str, Any]:
    """Kind -> object."""
    plain = [split(tree)[0] for tree in trees(*runs)]
    return {each["kind"]: each for each in plain}


def objects(run: Data | None = None, **changes: Any) -> dict[str, Any]:
    return objects_of(compiled(run, OPERATORS | {"monitoring": EVERYTHING | changes}))


def alerts(run: Data | None = None, **changes: Any) -> dict[str, Any]:
    """Name -> rule."""
    _, group = objects(run, **changes)["PrometheusRule"]["spec"]["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def known(*runs: CompiledRun) -> list[dict[str, str]]:
    """Labels that the alerts take over, of each run."""
    group, _ = objects_of(*runs)["PrometheusRule"]["spec"]["groups"]
    return [rule["labels"] for rule in group["rules"]]


def dashboard(run: Data | None = None, **changes: Any) -> dict[str, Any]:
    [(name, text)] = objects(run, **changes)["ConfigMap"]["data"].items()
    assert name.endswith(".json")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def expressions(run: Data | None = None, **changes: Any) -> Iterator[str]:
    """Every PromQL text there is."""
    yield from (rule["expr"] for rule in alerts(run, **changes).values())
    yield from (target["expr"] for panel in dashboard(run, **changes)["panels"] for target in panel["targets"])


def test_the_objects(snapshot: SnapshotAssertion) -> None:
    assert objects() == snapshot


def test_nothing_without_monitoring_and_for_a_command() -> None:
    assert trees(compiled()) == []
    assert trees(compiled(command("torchrun", "train.py"), {"monitoring": EVERYTHING})) == []


def test_no_dashboard_without_grafana() -> None:
    assert list(objects(dashboard=None)) == ["PodMonitor", "PrometheusRule"]


# --- they are of the namespace --------------------------------------------------------------------------------------------------


def test_runs_differ_in_what_is_known_of_them_and_in_nothing_else() -> None:
    audio = SCRIPT | {"run": "other", "team": "audio"}
    trainer, program = (compiled(run, {"monitoring": EVERYTHING}) for run in (TRAINER, audio))
    together, alone = objects_of(trainer, program), objects_of(trainer)
    assert [(one["run"], one["team"]) for one in known(trainer, program)] == [("example", "vision"), ("other", "audio")]
    rules = [each["PrometheusRule"]["spec"]["groups"][1] for each in (together, alone)]
    assert rules[0] == rules[1]
    assert all(together[kind] == alone[kind] for kind in ("PodMonitor", "ConfigMap"))


def test_an_edit_that_renames_the_run_leaves_them_as_they_are() -> None:
    before, after = (
        compiled({"restarts": restarts, "labels": {"a": str(restarts)}}, {"monitoring": EVERYTHING}) for restarts in (1, 2)
    )
    assert before.plan.name != after.plan.name
    assert objects_of(before) == objects_of(after)


def test_labels_are_those_that_are_selected_by() -> None:
    run = compiled({"labels": {"example.com/project": "digits"}}, {"monitoring": EVERYTHING})
    for kind, wanted in {"PodMonitor": SELECTED, "PrometheusRule": SELECTED, "ConfigMap": {"grafana_dashboard": "1"}}.items():
        assert objects_of(run)[kind]["metadata"]["labels"] == MANAGED | wanted


def test_a_rule_keeps_what_an_earlier_one_knows_of_broken_runs() -> None:
    runs = [compiled({"run": name}, {"monitoring": EVERYTHING}) for name in ("one", "two", "three")]
    earlier, now = objects_of(*runs)["PrometheusRule"], objects_of(runs[0])["PrometheusRule"]
    kept = with_runs_of(now, earlier, {"two"})
    assert [rule["labels"]["run"] for rule in kept["spec"]["groups"][0]["rules"]] == ["one", "two"]
    assert with_runs_of(objects_of(runs[1])["PrometheusRule"], earlier, {"one"}) == kept
    assert kept["spec"]["groups"][1] == now["spec"]["groups"][1]


# --- what is scraped is served --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [TRAINER, SCRIPT])
def test_the_monitor_finds_the_pods(work: Data) -> None:
    run = compiled(work, {"monitoring": EVERYTHING})
    spec = objects_of(run)["PodMonitor"]["spec"]
    template = next(each for each in run.manifests if each["kind"] == "Job")["spec"]["template"]
    [selected], labels = spec["selector"]["matchExpressions"], template["metadata"]["labels"]
    assert (selected["key"] in labels, selected["operator"]) == (True, "Exists")
    [endpoint] = spec["podMetricsEndpoints"]
    found = {f"__meta_kubernetes_pod_label_{re.sub('[^a-zA-Z0-9_]', '_', key)}": text for key, text in labels.items()}
    series = {one["targetLabel"]: found[one["sourceLabels"][0]] for one in endpoint["relabelings"]}
    assert series == {"run": "example", "identity": run.plan.name}
    assert endpoint["port"] in {port["name"] for port in template["spec"]["containers"][0]["ports"]}


def served() -> set[str]:
    """Sample names of ``/metrics`` once every metric has a value."""
    measurements = Measurements()
    measurements.update(dict.fromkeys(METRICS, 1.0))
    families = text_string_to_metric_families(measurements.text().decode())
    return {sample.name for family in families for sample in family.samples}


def names_in(expression: str) -> set[str]:
    """Series that an expression asks for."""
    found: set[str] = set()

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            assert node.name, expression
            found.add(node.name)

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


@pytest.mark.parametrize("dcgm", [True, False])
def test_expressions_ask_only_for_what_is_served(dcgm: bool) -> None:
    asked = {name for expression in expressions(dcgm=dcgm) for name in names_in(expression)}
    assert asked - served() == ({GPU_UTILIZATION, RUN_INFO} if dcgm else {RUN_INFO})
    [record] = {rule["record"] for rule in objects(dcgm=dcgm)["PrometheusRule"]["spec"]["groups"][0]["rules"]}
    assert record == RUN_INFO


def test_before_a_rank_has_reported_a_pod_serves_its_supervisor_alone() -> None:
    families = text_string_to_metric_families(Measurements().text().decode())
    assert {sample.name for family in families for sample in family.samples} <= set(SUPERVISED) <= set(METRICS)


def test_a_name_that_is_not_served_is_found() -> None:
    assert names_in("rate(trainwright_steps[5m]) > 0 or trainwright_up") - served() == {"trainwright_steps"}


def test_the_dashboard_shows_every_metric() -> None:
    assert {panel.metric for panel in PANELS} == set(METRICS) - LIMITS


def test_every_limit_limits_an_alert() -> None:
    asked = {name for rule in alerts().values() for name in names_in(rule["expr"])}
    assert asked >= LIMITS


# --- alerts ---------------------------------------------------------------------------------------------------------------------


def test_every_namespace_has_every_alert() -> None:
    assert list(alerts()) == list(alerts(SCRIPT)) == [alert.name for alert in ALERTS]
    assert set(alerts()) - set(alerts(dcgm=False)) == {"TrainwrightGpuIdle"}


@pytest.mark.parametrize(("run", "cluster", "gpus"), [
    ({}, {}, "whole"),
    ({"topology": {"kind": "ddp", "nodes": 2, "processes_per_node": 4, "gpus_per_node": 0}}, {}, "none"),
    ({}, {"node_pools": {"h100": {"gpu": {"resource": "amd.com/gpu"}}, "spot": None, "cpu": None}}, "other"),
])
def test_whose_gpus_dcgm_measures(run: Data, cluster: Data, gpus: str) -> None:
    assert [one["gpus"] for one in known(compiled(run, {"monitoring": EVERYTHING} | cluster))] == [gpus]
    assert 'gpus="whole"' in alerts()["TrainwrightGpuIdle"]["expr"]


def test_every_alert_names_the_run_and_what_to_do() -> None:
    [labels] = known(compiled({}, {"monitoring": EVERYTHING}))
    assert labels == {"namespace": "training", "run": "example", "team": "vision", "severity": "warning", "gpus": "whole"}
    for name, rule in alerts().items():
        assert rule["labels"] == {"namespace": "training"}
        assert " * on (run) group_left (team, severity) trainwright_run_info{" in rule["expr"]
        assert rule["annotations"]["runbook_url"] == f"https://docs.example.com/monitoring#{name.lower()}"
        assert "`trainwright diagnose {{ $labels.run }}`" in rule["annotations"]["description"]


def test_no_link_where_nobody_said_where_the_page_is() -> None:
    assert all(set(rule["annotations"]) == {"summary", "description"} for rule in alerts(runbooks=None).values())


def test_summaries_use_labels_that_the_condition_keeps() -> None:
    for rule in alerts().values():
        kept = "pod" if rule["alert"] == "TrainwrightGpuIdle" else IDENTITY
        assert f"$labels.{kept} " in rule["annotations"]["summary"]
        assert f"by ({kept}" in rule["expr"] or f", {kept})" in rule["expr"]


# --- the dashboard --------------------------------------------------------------------------------------------------------------


def test_panels_do_not_overlap() -> None:
    panels = dashboard({})["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == len(PANELS) + 1
    cells = [
        (x, y)
        for panel in panels
        for grid in [panel["gridPos"]]
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_dashboards_of_two_namespaces_share_no_file_and_no_uid() -> None:
    cluster, run = compiled({}, {"monitoring": EVERYTHING}).resolution.cluster, WatchedRun("example", "vision", "none")
    maps = [split(monitoring_objects(cluster, namespace, [run])[2])[0] for namespace in ("training", "other")]
    [names, uids] = [[list(each["data"]) for each in maps], [json.loads(*each["data"].values())["uid"] for each in maps]]
    assert names[0] != names[1]
    assert uids[0] != uids[1]
    assert all(len(uid) <= 40 for uid in uids)  # Grafana's limit


def test_a_dashboard_goes_where_grafana_looks() -> None:
    assert objects()["ConfigMap"]["metadata"]["namespace"] == "training"
    assert objects(dashboard={"namespace": "grafana"})["ConfigMap"]["metadata"]["namespace"] == "grafana"


# --- as the API server and explain see them -------------------------------------------------------------------------------------


def strict(schema: Any) -> Any:
    """The schema with every object closed to keys that it does not name, as the API server is with strict validation."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


def crd_schema(plural: str) -> Any:
    path = Path(CRDS, "prometheus-operator", f"monitoring.coreos.com_{plural}.yaml")
    [version] = YAML(typ="safe", pure=True).load(path)["spec"]["versions"]
    assert version["name"] == "v1"
    schema = version["schema"]["openAPIV3Schema"]
    del schema["properties"]["metadata"]  # of every object alike, and without keys in a CRD
    return strict(schema)


def without_metadata(manifest: Any) -> Any:
    return {key: value for key, value in manifest.items() if key != "metadata"}


@pytest.mark.skipif(not CRDS, reason="TRAINWRIGHT_CRDS names no folder of upstream CRDs")
@pytest.mark.parametrize(("kind", "plural"), [("PodMonitor", "podmonitors"), ("PrometheusRule", "prometheusrules")])
def test_custom_resources_are_valid(kind: str, plural: str) -> None:
    schema, manifest = crd_schema(plural), without_metadata(objects()[kind])
    valid = jsonschema.Draft202012Validator(schema)  # its patterns are Go's, and one does not compile here; ours do not meet it
    valid.validate(manifest)
    misspelt = {**manifest, "spec": {**manifest["spec"], "selektor": {}}}
    with pytest.raises(jsonschema.ValidationError, match="selektor"):
        valid.validate(misspelt)


def test_the_config_map_is_valid() -> None:
    assert list(schema_problems([objects()["ConfigMap"]], "1.34")) == []


def test_values_arrive_as_they_are() -> None:
    assert [list(problems(each)) for each in objects().values()] == [[], [], []]


def leaves(node: Any, pointer: str = "") -> Iterator[str]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        below = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
        yield below
        yield from leaves(value, below)


def test_every_line_has_a_reason() -> None:
    for tree in trees(compiled({}, {"monitoring": EVERYTHING})):
        manifest, provenance = split(tree)
        for pointer in leaves(manifest):
            known = reasons_by_kind(KINDS).get(GroupKind.of(manifest), {})
            constant = any(pointer == place or pointer.startswith(f"{place}/") for place in known)
            assert constant or nearest(provenance, pointer)[1], f"{manifest['kind']}{pointer}"


def test_no_reason_is_one_of_another_kind() -> None:
    """A run has a ConfigMap of its own, with other reasons."""
    assert {kind.key.kind for kind in KINDS} == {"PodMonitor", "PrometheusRule"}


# --- the profile and the page ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", ["1s", "30s", "2m"])
def test_intervals_that_prometheus_remembers(seconds: str) -> None:
    [endpoint] = objects(interval=seconds)["PodMonitor"]["spec"]["podMetricsEndpoints"]
    assert endpoint["interval"] == seconds


def test_an_interval_that_is_forgotten_is_refused() -> None:
    with pytest.raises(ValueError, match="write at most 2 min"):
        Monitoring.model_validate({"kind": "prometheus-operator", "interval": "5m"})


def alert_table() -> str:
    rows = [f"| [{alert.name}](#{alert.name.lower()}) | {alert.when} | {alert.wait} |" for alert in ALERTS]
    return "\n".join(["| alert | fires when | for |", "|---|---|---|", *rows, ""])


def alert_sections() -> str:
    return "\n".join(f"### {alert.name}\n\n{alert.action}\n\nWhy then: {alert.reason}.\n" for alert in ALERTS)


def key_table(model: str) -> str:
    schema = Monitoring.model_json_schema()
    part = schema if model == "Monitoring" else schema["$defs"][model]
    rows = [f"| `{key}`{' (required)' if key in part.get('required', []) else ''} |" for key in part["properties"]]
    return "\n".join(rows)


def test_the_page_has_the_alerts_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert alert_table() in text, f"docs/monitoring.md should have:\n{alert_table()}"
    assert alert_sections() in text, f"docs/monitoring.md should have:\n{alert_sections()}"


@pytest.mark.parametrize("model", ["Monitoring", "Dashboard"])
def test_the_page_has_every_key_of_the_profile(model: str) -> None:
    section = PAGE.read_text(encoding="utf-8").partition(f"### {model}\n")[2].partition("\n#")[0]
    keys = [line.partition(" |")[0] + " |" for line in section.splitlines() if line.startswith("| `")]
    assert "\n".join(keys) == key_table(model)


def test_the_example_on_the_page_is_a_profile() -> None:
    block = PAGE.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    assert len(objects(**YAML(typ="safe", pure=True).load(block)["monitoring"])) == 3
