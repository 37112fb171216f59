"""The node's own network, and runs that cannot be fenced off."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, findings

HOST: Data = {"host_network": True}
OPEN: Data = {"namespaces": {"training": {"pod_security": "privileged"}}}
TRAINER: Data = {
    "operators": {
        "trainer": {"version": "2.3"}, "jobset": {"version": "0.12"}, "kuberay": {"version": "1.7"},
        "training-operator": {"version": "1.9"},
    },
}  # fmt: skip
RAY: Data = {
    "target": "ray-job", "topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 8, "version": "2.52.0"},
    **command("python", "t.py"),
}  # fmt: skip


@pytest.mark.parametrize(("level", "expected"), [("restricted", ["TW604"]), ("baseline", ["TW604"]), ("privileged", [])])
def test_only_the_open_level_allows_the_nodes_network(level: str, expected: list[str]) -> None:
    cluster: Data = {"namespaces": {"training": {"pod_security": level}}}
    assert codes(HOST, cluster) == expected
    assert codes({}, cluster) == []


@pytest.mark.parametrize(
    ("run", "expected"),
    [({"target": "indexed-job"}, []), ({"target": "pytorch-job"}, []), ({"target": "train-job"}, ["TW605"]), (RAY, ["TW605"])],
)
def test_an_operator_that_decides_ports_itself_cannot_share_a_node(run: Data, expected: list[str]) -> None:
    found = findings(run | HOST, OPEN | TRAINER)
    assert [finding.code for finding in found] == expected
    assert all(finding.where.pointer == "/host_network" for finding in found)


@pytest.mark.parametrize(
    ("run", "where"), [({}, None), (HOST, "/host_network"), (RAY, "/target")], ids=["fenced", "the node's network", "Ray"]
)
def test_a_run_that_is_not_fenced_off_says_why(run: Data, where: str | None) -> None:
    cluster = OPEN | TRAINER | {"network_policy": True}
    found = [finding for finding in findings(run, cluster) if finding.code == "TW440"]
    assert [finding.where.pointer for finding in found] == ([where] if where else [])
    assert "TW440" not in codes(run, OPEN | TRAINER), "where nobody asked for fences, there is nothing to say"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    cluster = TRAINER | {"network_policy": True}
    assert codes({"target": "train-job"} | HOST, cluster) == ["TW604", "TW605", "TW440"]


def test_an_override_beside_the_nodes_network_is_no_clash_of_ports() -> None:
    """The run has ports of its own there, which other runs do not have."""
    run = HOST | {"topology": {"gpus_per_node": 1}, "overrides": {"pod": {"node": {"runtimeClassName": "nvidia"}}}}
    assert codes(run, OPEN) == []
    by_hand = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    assert codes({"topology": {"gpus_per_node": 1}, "overrides": {"pod": {"node": by_hand}}}, OPEN) == ["TW605"]
