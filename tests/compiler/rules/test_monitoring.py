"""How a run is watched, and who would not see it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler import example
from tests.compiler.example import Data, command, compiled, script

from trainwright.findings import Finding
from trainwright.manifest.labels import object_labels
from trainwright.rules.monitoring import OWN_LABELS

WATCHED: Data = {"kind": "prometheus-operator"}


def findings(run: Data | None = None, monitoring: Any = WATCHED) -> list[Finding]:
    """Those on monitoring."""
    return [finding for finding in example.findings(run, {"monitoring": monitoring}) if finding.code.startswith("TW32")]


@pytest.mark.parametrize(
    ("run", "monitoring", "expected"),
    [
        ({}, WATCHED, []),
        ({}, None, []),
        (command("torchrun", "train.py"), WATCHED, ["TW320"]),
        (command("torchrun", "train.py"), None, []),
        (script("python", "train.py"), WATCHED, ["TW321"]),
        ({}, WATCHED | {"watches": ["training"]}, []),
        ({}, WATCHED | {"watches": []}, ["TW322"]),
        ({}, WATCHED | {"watches": ["monitoring", "other"]}, ["TW322"]),
    ],
)
def test_who_is_watched(run: Data, monitoring: Any, expected: list[str]) -> None:
    assert [finding.code for finding in findings(run, monitoring)] == expected


@pytest.mark.parametrize("field", ["pod_monitor_labels", "rule_labels"])
def test_a_label_that_the_run_gives_another_value(field: str) -> None:
    monitoring = WATCHED | {field: {"release": "stack"}}
    assert findings({"labels": {"release": "stack", "example.com/release": "7"}}, monitoring) == []
    [finding] = findings({"labels": {"release": "7"}}, monitoring)
    assert finding.code == "TW323"
    assert finding.fix == "remove it, or write release: stack"


def test_the_label_of_the_dashboard_counts_too() -> None:
    [finding] = findings({"labels": {"grafana_dashboard": "0"}}, WATCHED | {"dashboard": {}})
    assert finding.code == "TW323"
    assert findings({"labels": {"grafana_dashboard": "0"}}, WATCHED) == []


@pytest.mark.parametrize("key", OWN_LABELS)
def test_a_label_of_every_run(key: str) -> None:
    [finding] = findings({}, WATCHED | {"rule_labels": {key: "prometheus"}})
    assert finding.code == "TW323"
    assert "another label" in finding.fix


def test_own_labels_are_those_of_the_objects() -> None:
    result = compiled()
    assert tuple(object_labels(result.run, result.plan)) == OWN_LABELS
