"""How long pods stay on a node that is lost: tolerations of the two taints that the node controller sets."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.controllers import pods
from tests.compiler.example import Data, codes, command, compiled
from tests.compiler.targets import CASES, on, profile_for

from trainwright.compile import CompiledRun

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def seconds(result: CompiledRun) -> dict[str, dict[str, list[Any]]]:
    """Role -> taint -> the times that its pods tolerate it for, as the controllers make them."""
    found: dict[str, dict[str, list[Any]]] = {}
    for pod in pods(result.manifests):
        tolerations = pod.spec.get("tolerations") or []
        found[pod.role] = {
            key: [one.get("tolerationSeconds") for one in tolerations if one["key"] == key] for key in (NOT_READY, UNREACHABLE)
        }
        for one in tolerations:
            assert "tolerationSeconds" not in one or one["effect"] == "NoExecute", "the API server refuses it else"
    return found


@pytest.mark.parametrize("target", CASES)
@pytest.mark.parametrize(
    ("run", "cluster", "expected"),
    [
        ({}, {}, 60),
        ({}, {"node_lost": "5m"}, 300),
        ({"node_lost": "10s"}, {"node_lost": "5m"}, 10),
    ],
    ids=["default", "profile", "run"],
)
def test_every_pod_with_a_role_leaves_a_lost_node_when_it_is_said_to(
    target: str, run: Data, cluster: Data, expected: int
) -> None:
    result = compiled(on(target, **run), profile_for(target) | cluster)
    found = seconds(result)
    assert found.keys() >= {role.name for role in result.resolution.binding.roles if role.holds_ranks}
    assert all(times == {NOT_READY: [expected], UNREACHABLE: [expected]} for times in found.values())


def test_the_pool_keeps_its_own_and_its_taints() -> None:
    pool = {"taints": [{"key": "nvidia.com/gpu"}], "pods": {"tolerations": [{"key": UNREACHABLE, "effect": "NoExecute"}]}}
    for work in ({}, command("train")):
        result = compiled({"node_pool": "h100", **work}, {"node_pools": {"h100": pool}})
        assert seconds(result) == {"node": {NOT_READY: [60], UNREACHABLE: [None]}}, "the pool's stays as it is"
        taint = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
        assert taint in pods(result.manifests)[0].spec["tolerations"]


def test_an_override_adds_to_them() -> None:
    added = {"key": "example.com/maintenance", "operator": "Exists"}
    result = compiled({"overrides": {"pod": {"node": {"tolerations": [added]}}}})
    assert added in pods(result.manifests)[0].spec["tolerations"]
    assert seconds(result) == {"node": {NOT_READY: [60], UNREACHABLE: [60]}}


@pytest.mark.parametrize("value", ["0s", 60, "soon"])
def test_it_is_a_time_with_a_unit(value: object) -> None:
    with pytest.raises(ValueError, match="node_lost"):
        codes({"node_lost": value})
