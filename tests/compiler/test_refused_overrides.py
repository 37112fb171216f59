"""Overrides of pods that the API server refuses: each is told on its own line, whatever the target makes of the pod."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, findings
from tests.compiler.targets import CASES, on, profile_for

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REFUSED_PODS: dict[str, tuple[Data, str]] = {
    "value of Exists": ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "tolerations/0/value"),
    "seconds of NoSchedule": (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}]},
        "tolerations/0/tolerationSeconds",
    ),
    "skew": (
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]},
        "topologySpreadConstraints/0/maxSkew",
    ),
    "deadline": ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds"),
    "affinity without terms": (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
        f"affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms",
    ),
    "affinity of nothing": (
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": ""}]}}},
        f"affinity/podAntiAffinity/{REQUIRED}/0/topologyKey",
    ),
    "label of a node": ({"nodeSelector": {"example.com/disk": "a b"}}, "nodeSelector/example.com~1disk"),
    "group": ({"securityContext": {"fsGroup": -1}}, "securityContext/fsGroup"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_PODS)
@pytest.mark.parametrize("target", CASES)
def test_an_override_that_the_api_server_refuses_is_told_on_its_line(target: str, name: str) -> None:
    patch, place = REFUSED_PODS[name]
    role = next(iter(CASES[target].roles_of(CASES[target].shapes[0])))
    found = findings(on(target, overrides={"pod": {role: patch}}), profile_for(target))
    assert f"/overrides/pod/{role}/{place}" in {it.where.pointer for it in found if it.code == "TW603"}


@pytest.mark.parametrize("target", CASES)
def test_an_override_that_the_api_server_takes(target: str) -> None:
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    patch = {
        "tolerations": [{"key": "example.com/a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        "activeDeadlineSeconds": 1, "topologySpreadConstraints": [spread], "nodeSelector": {"example.com/disk": ""},
    }  # fmt: skip
    role = next(iter(CASES[target].roles_of(CASES[target].shapes[0])))
    assert "TW603" not in codes(on(target, overrides={"pod": {role: patch}}), profile_for(target))
