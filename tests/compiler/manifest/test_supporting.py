"""Fences, budgets and what else is around a run, on every target alike."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, compiled, patched
from tests.compiler.objects import the

from trainwright.compile import CompiledRun
from trainwright.manifest import supporting
from trainwright.operators import TARGETS
from trainwright.operators.base import Target

FENCED: Data = {"network_policy": True}
WATCHED: Data = {"monitoring": {"kind": "prometheus-operator", "namespace": "watching"}}
ELASTIC: Data = {
    "target": "pytorch-job",
    "topology": {"kind": "ddp", "nodes": 3, "gpus_per_node": 8, "elastic": {"min_nodes": 2, "max_nodes": 5}},
}  # fmt: skip
PYTORCH: Data = {
    "operators": {"training-operator": {"version": "1.9"}}, "namespaces": {"training": {"pod_security": "privileged"}},
}  # fmt: skip


def kinds(result: CompiledRun) -> list[str]:
    return [manifest["kind"] for manifest in result.manifests]


def ingress(run: Data, cluster: Data) -> list[Data]:
    rules: list[Data] = the(compiled(run, cluster), "NetworkPolicy")["spec"]["ingress"]
    return rules


def test_a_fence_lets_in_the_run_itself_and_the_scraper_of_its_metrics() -> None:
    result = compiled({}, FENCED | WATCHED)
    spec = the(result, "NetworkPolicy")["spec"]
    mine = {"matchLabels": {"app.kubernetes.io/name": "example"}}
    assert spec["podSelector"] == mine
    assert spec["policyTypes"] == ["Ingress"], "storage and name servers are reached as before"
    assert spec["ingress"] == [
        {"from": [{"podSelector": mine}]},
        {
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "watching"}}}],
            "ports": [{"port": "http", "protocol": "TCP"}],
        },
    ]


@pytest.mark.parametrize(
    ("run", "cluster", "rules"),
    [({}, FENCED, 1), ({}, FENCED | WATCHED, 2), (command("train"), FENCED | WATCHED, 1)],
    ids=["nothing watches", "watched", "nothing to scrape"],
)
def test_there_is_a_door_for_a_scraper_where_there_is_something_to_scrape(run: Data, cluster: Data, rules: int) -> None:
    assert len(ingress(run, cluster)) == rules


def test_without_the_profiles_word_there_is_no_fence() -> None:
    assert "NetworkPolicy" not in kinds(compiled({}, WATCHED))


def test_a_fence_may_change_in_place_and_moves_no_name() -> None:
    """Prometheus moves to another namespace: no run restarts."""
    elsewhere = {"monitoring": {"kind": "prometheus-operator", "namespace": "elsewhere"}}
    names = {compiled({}, FENCED | cluster).plan.name for cluster in (WATCHED, elsewhere, {})}
    assert names == {compiled({}, {}).plan.name}, "and neither does the fence itself: no pod changes with it"


def test_a_budget_is_an_elastic_runs_alone() -> None:
    result = compiled(ELASTIC, PYTORCH)
    spec = the(result, "PodDisruptionBudget")["spec"]
    assert spec["minAvailable"] == 2
    assert spec["selector"] == {"matchLabels": {"app.kubernetes.io/instance": result.plan.name}}
    fixed = {**ELASTIC, "topology": {"kind": "ddp", "nodes": 3, "gpus_per_node": 8, "elastic": None}}
    smallest = {**ELASTIC, "topology": {**fixed["topology"], "elastic": {"min_nodes": 3, "max_nodes": 5}}}
    for run in (fixed, smallest):
        assert "PodDisruptionBudget" not in kinds(compiled(run, PYTORCH)), "it would block drains for as long as the run lasts"


@pytest.mark.parametrize(("elastic", "devices"), [(None, None), ({"min_nodes": 1, "max_nodes": 4}, "1")])
def test_a_run_that_may_grow_beyond_one_node_has_rdma_devices_from_the_start(elastic: Data | None, devices: str | None) -> None:
    fields = {**ELASTIC, "topology": {"kind": "ddp", "nodes": 1, "gpus_per_node": 8, "elastic": elastic}}
    (replica,) = the(compiled(fields, PYTORCH), "PyTorchJob")["spec"]["pytorchReplicaSpecs"].values()
    (container,) = replica["template"]["spec"]["containers"]
    assert container["resources"]["limits"].get("rdma/shared") == devices


@pytest.mark.parametrize(
    ("patch", "expected"),
    [({"maxUnavailable": 1}, ["TW601"]), ({"selector": {"matchLabels": {"app": "any"}}}, ["TW601"]), ({"minAvailable": 1}, [])],
)
def test_a_budget_counts_in_one_way_and_the_runs_own_pods(patch: Data, expected: list[str]) -> None:
    override = {"target": "pytorch-job", "kind": "PodDisruptionBudget", "patch": {"spec": patch}}
    told = codes(ELASTIC | {"overrides": {"objects": [override]}}, PYTORCH)
    assert [code for code in told if code.startswith("TW6")] == expected


@pytest.mark.parametrize(
    ("kind", "patch", "cluster", "expected"),
    [
        ("NetworkPolicy", {"spec": {"podSelector": {"matchLabels": {"app": "any"}}}}, FENCED, ["TW601"]),
        ("NetworkPolicy", {"metadata": {"annotations": {"example.com/owner": "me"}}}, FENCED, []),
        ("NetworkPolicy", {"metadata": {"annotations": {"example.com/owner": "me"}}}, {}, ["TW602"]),
        ("PodGroup", {"spec": {"minMember": 1}}, {"scheduling": {"gang": "volcano", "version": "1.15"}}, ["TW601"]),
        ("PodGroup", {"spec": {"minResources": {"cpu": "4"}}}, {"scheduling": {"gang": "volcano", "version": "1.15"}}, []),
    ],
)
def test_what_is_around_a_run_can_be_patched_but_for_what_the_plan_owns(
    kind: str, patch: Data, cluster: Data, expected: list[str]
) -> None:
    assert codes(patched(kind, patch), cluster) == expected


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_target_makes_nothing_that_stands_beside_every_run(target: Target) -> None:
    """So what is said of a kind is said once."""
    assert not {kind.key for kind in target.kinds} & {kind.key for kind in supporting.KINDS}
