"""Monitoring of a run: what is scraped is served, and what is asked of Prometheus is in the trainer's table."""

from __future__ import annotations

import json
import os
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
from tests.compiler.findings.page import overlay
from tests.compiler.target.test_xgboost_job import BOOSTING, OPERATORS

from trainwright.cluster.addons import Monitoring
from trainwright.compile import CompiledRun
from trainwright.manifest.kinds import GroupKind, reasons_by_kind
from trainwright.manifest.labels import object_labels
from trainwright.manifest.monitoring import KINDS, monitoring_objects
from trainwright.manifest.monitoring.alerts import ALERTS
from trainwright.manifest.monitoring.dashboard import PANELS
from trainwright.manifest.monitoring.series import GPU_UTILIZATION, IDENTITY
from trainwright.manifest.plain import problems
from trainwright.manifest.provenance import nearest, split
from trainwright.rules.objects import schema_problems
from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.contract.served import OF_PREFLIGHT, SUPERVISED, UNKNOWN_TO_BOOSTING
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
GPU_BOOSTING = overlay(BOOSTING, {"topology": {"gpus_per_node": 1}})


def objects_of(run: CompiledRun) -> dict[str, Any]:
    """Kind -> object."""
    plain = [split(tree)[0] for tree in monitoring_objects(run.resolution)]
    return {each["kind"]: each for each in plain}


def objects(run: Data | None = None, **changes: Any) -> dict[str, Any]:
    return objects_of(compiled(run, OPERATORS | {"monitoring": EVERYTHING | changes}))


def alerts(run: Data | None = None, **changes: Any) -> dict[str, Any]:
    """Name -> rule."""
    [group] = objects(run, **changes)["PrometheusRule"]["spec"]["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


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


def test_the_objects_of_a_script(snapshot: SnapshotAssertion) -> None:
    assert objects(SCRIPT) == snapshot


def test_the_objects_of_a_boosting_run(snapshot: SnapshotAssertion) -> None:
    assert objects(BOOSTING) == snapshot


def test_nothing_without_monitoring_and_for_a_command() -> None:
    assert monitoring_objects(compiled().resolution) == []
    assert monitoring_objects(compiled(command("torchrun", "train.py"), {"monitoring": EVERYTHING}).resolution) == []


def test_no_dashboard_without_grafana() -> None:
    assert list(objects(dashboard=None)) == ["PodMonitor", "PrometheusRule"]


# --- they outlive an identity ---------------------------------------------------------------------------------------------------


def test_an_edit_that_renames_the_run_leaves_them_as_they_are() -> None:
    before, after = (compiled({"restarts": restarts}, {"monitoring": EVERYTHING}) for restarts in (1, 2))
    assert before.plan.name != after.plan.name
    assert objects_of(before) == objects_of(after)
    assert before.plan.name not in json.dumps(objects_of(before))
    assert all(each["metadata"]["name"] == "example" for each in objects_of(before).values())


def test_labels_are_those_of_the_run_without_the_identity() -> None:
    run = compiled({"labels": {"example.com/project": "digits"}}, {"monitoring": EVERYTHING})
    kept = split(object_labels(run.run))[0]
    for kind, wanted in {"PodMonitor": SELECTED, "PrometheusRule": SELECTED, "ConfigMap": {"grafana_dashboard": "1"}}.items():
        assert objects_of(run)[kind]["metadata"]["labels"] == kept | wanted


# --- what is scraped is served --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [TRAINER, SCRIPT])
def test_the_monitor_finds_the_pods(work: Data) -> None:
    run = compiled(work, {"monitoring": EVERYTHING})
    spec = objects_of(run)["PodMonitor"]["spec"]
    template = next(each for each in run.manifests if each["kind"] == "Job")["spec"]["template"]
    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert set(spec["podTargetLabels"]) <= set(template["metadata"]["labels"])
    [endpoint] = spec["podMetricsEndpoints"]
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


@pytest.mark.parametrize("work", [TRAINER, SCRIPT, GPU_BOOSTING])
@pytest.mark.parametrize("dcgm", [True, False])
def test_expressions_ask_only_for_what_is_served(work: Data, dcgm: bool) -> None:
    asked = {name for expression in expressions(work, dcgm=dcgm) for name in names_in(expression)}
    assert asked - served() == ({GPU_UTILIZATION} if dcgm else set())


def test_a_boosting_run_is_asked_for_all_but_what_no_round_has() -> None:
    asked = {name.removesuffix("_total") for expression in expressions(BOOSTING) for name in names_in(expression)}
    assert set(METRICS) - asked == {*UNKNOWN_TO_BOOSTING, *OF_PREFLIGHT, "trainwright_evaluation_accuracy"}


def test_a_script_is_asked_only_for_what_its_supervisor_serves() -> None:
    measurements = Measurements()  # as it is before any rank has reported
    families = text_string_to_metric_families(measurements.text().decode())
    assert {sample.name for family in families for sample in family.samples} <= set(SUPERVISED) <= set(METRICS)
    asked = {name for expression in expressions(SCRIPT, dcgm=False) for name in names_in(expression)}
    assert asked == set(SUPERVISED)


def test_a_name_that_is_not_served_is_found() -> None:
    assert names_in("rate(trainwright_steps[5m]) > 0 or trainwright_up") - served() == {"trainwright_steps"}


def test_the_dashboard_shows_every_metric() -> None:
    assert {panel.metric for panel in PANELS} == set(METRICS)


# --- alerts ---------------------------------------------------------------------------------------------------------------------


def test_a_script_has_only_the_alerts_that_its_supervisor_serves() -> None:
    assert list(alerts()) == [alert.name for alert in ALERTS]
    assert list(alerts(SCRIPT)) == ["TrainwrightRestartLoop", "TrainwrightGpuIdle"]


def test_a_boosting_run_has_the_alerts_of_a_trainer() -> None:
    assert list(alerts(GPU_BOOSTING)) == [alert.name for alert in ALERTS]
    assert list(alerts(BOOSTING)) == [alert.name for alert in ALERTS if alert.name != "TrainwrightGpuIdle"]


def test_a_run_that_is_scored_after_each_round_may_spend_its_time_on_that() -> None:
    data = {"evaluation_path": "/data/held-out"}
    early = alerts(overlay(BOOSTING, {"workload": {"data": data, "early_stopping_rounds": 20}}))
    assert set(alerts(BOOSTING)) - set(early) == {"TrainwrightLowGoodput"}


def test_attempts_are_asked_for_where_they_are_counted() -> None:
    """Without a volume the count is 1 for ever."""
    nowhere = SCRIPT | {"mounts": {"/checkpoints": None}}
    assert ["trainwright_attempt" in str(alerts(run)) for run in (TRAINER, SCRIPT, nowhere)] == [True, True, False]
    assert "Attempt" not in [panel["title"] for panel in dashboard(nowhere)["panels"]]


@pytest.mark.parametrize(("run", "cluster"), [
    ({}, {"monitoring": EVERYTHING | {"dcgm": False}}),
    ({"topology": {"kind": "ddp", "nodes": 2, "processes_per_node": 4, "gpus_per_node": 0}}, {"monitoring": EVERYTHING}),
    ({}, {"monitoring": EVERYTHING, "node_pools": {"h100": {"gpu": {"resource": "amd.com/gpu"}}, "spot": None, "cpu": None}}),
])
def test_no_alert_on_gpus_that_nobody_measures(run: Data, cluster: Data) -> None:
    [group] = objects_of(compiled(run, cluster))["PrometheusRule"]["spec"]["groups"]
    assert "TrainwrightGpuIdle" not in [rule["alert"] for rule in group["rules"]]


def test_thresholds_follow_the_run() -> None:
    by_time, by_steps = (alerts({"checkpoints": each})["TrainwrightFailingCheckpoints"]["expr"]
                         for each in ({"every": "10m"}, {"every_steps": 500}))
    assert "step_seconds" in by_time
    assert "step_seconds" not in by_steps
    assert f"\n    > {2 * 500 + 3 * 10}\n" in by_steps
    assert float(by_time.split("step_seconds{")[1].split("> ")[1].splitlines()[0]) > 2 * 600
    assert "[3600s]" in by_steps
    grace = compiled().resolution.plan.grace.seconds
    assert alerts()["TrainwrightSaveBeyondGrace"]["expr"].endswith(f") > {grace - 5}\n")
    loops = [alerts({"topology": {"nodes": nodes}})["TrainwrightRestartLoop"]["expr"] for nodes in (2, 8)]
    assert [f">= {4 * nodes}\n" in loop for nodes, loop in zip((2, 8), loops, strict=True)] == [True, True]


def test_every_alert_names_the_run_and_what_to_do() -> None:
    for name, rule in alerts().items():
        assert rule["labels"] == {"severity": "warning", "namespace": "training", "run": "example", "team": "vision"}
        assert rule["annotations"]["runbook_url"] == f"https://docs.example.com/monitoring#{name.lower()}"
        assert rule["annotations"]["description"]


def test_no_link_where_nobody_said_where_the_page_is() -> None:
    assert all(set(rule["annotations"]) == {"summary", "description"} for rule in alerts(runbooks=None).values())


def test_summaries_use_labels_that_the_condition_keeps() -> None:
    for rule in alerts().values():
        kept = "pod" if rule["alert"] == "TrainwrightGpuIdle" else IDENTITY
        assert f"$labels.{kept} " in rule["annotations"]["summary"]
        assert f"by ({kept})" in rule["expr"]


# --- the dashboard --------------------------------------------------------------------------------------------------------------


def test_panels_do_not_overlap() -> None:
    panels = dashboard({})["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == len(PANELS) - 1, "all but that of image files"
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
    run = compiled({}, {"monitoring": EVERYTHING}).resolution
    other = run._replace(run=run.run.model_copy(update={"namespace": "other"}))
    maps = [split(monitoring_objects(each)[2])[0] for each in (run, other)]
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
@pytest.mark.parametrize("work", [TRAINER, SCRIPT])
@pytest.mark.parametrize(("kind", "plural"), [("PodMonitor", "podmonitors"), ("PrometheusRule", "prometheusrules")])
def test_custom_resources_are_valid(kind: str, plural: str, work: Data) -> None:
    schema, manifest = crd_schema(plural), without_metadata(objects(work)[kind])
    valid = jsonschema.Draft202012Validator(schema)  # its patterns are Go's, and one does not compile here; ours do not meet it
    valid.validate(manifest)
    misspelt = {**manifest, "spec": {**manifest["spec"], "selektor": {}}}
    with pytest.raises(jsonschema.ValidationError, match="selektor"):
        valid.validate(misspelt)


def test_the_config_map_is_valid() -> None:
    assert list(schema_problems([objects()["ConfigMap"]], "1.34")) == []


@pytest.mark.parametrize("work", [TRAINER, SCRIPT])
def test_values_arrive_as_they_are(work: Data) -> None:
    assert [list(problems(each)) for each in objects(work).values()] == [[], [], []]


def leaves(node: Any, pointer: str = "") -> Iterator[str]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        below = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
        yield below
        yield from leaves(value, below)


@pytest.mark.parametrize("work", [TRAINER, SCRIPT])
def test_every_line_has_a_reason(work: Data) -> None:
    for tree in monitoring_objects(compiled(work, {"monitoring": EVERYTHING}).resolution):
        manifest, provenance = split(tree)
        for pointer in leaves(manifest):
            known = reasons_by_kind(KINDS).get(GroupKind.of(manifest), {})
            constant = any(pointer == place or pointer.startswith(f"{place}/") for place in known)
            assert constant or nearest(provenance, pointer)[1], f"{manifest['kind']}{pointer}"


def test_no_reason_is_one_of_another_kind() -> None:
    """A run has a ConfigMap of its own, with other reasons."""
    assert {kind.key.kind for kind in KINDS} == {"PodMonitor", "PrometheusRule"}
    assert all(kind.owned for kind in KINDS)


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
