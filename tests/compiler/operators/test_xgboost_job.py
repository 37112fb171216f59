"""XGBoostJob: bindings, objects, and what of them is whose."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import EVERY_TARGET, Data, codes, command, compiled, message
from tests.compiler.findings.page import overlay
from tests.compiler.objects import container, environment, lines_without_answer, needs_crds, problems_of, top, yaml_of

from trainwright.compile import CompiledRun
from trainwright.handshake import Binding, Needs, Refusal, Rendezvous, Success
from trainwright.manifest.kinds import GroupKind
from trainwright.operators.training_operator.xgboost_job import XGBoostJob

OPERATORS: Data = {"operators": {"training-operator": {"version": "1.9.4"}, "jobset": {"version": "0.12.0"}}}
TOPOLOGY: Data = {"kind": "xgboost", "nodes": 3, "gpus_per_node": 0}
BOOSTING: Data = {
    "target": "xgboost-job", "topology": TOPOLOGY, "batch": None, "learning_rate": None,
    "workload": {
        "kind": "boosting", "booster": {"objective": "binary:logistic"}, "rounds": 100,
        "data": {"source": "table", "format": "parquet", "path": "/data/rows", "label": "y"},
    },
    "mounts": {"/data": {"claim": "dataset", "read_only": True}},
}
OPAQUE: Data = {"target": "xgboost-job", "topology": TOPOLOGY, **command("python", "boost.py")}
ALONE: Data = overlay(BOOSTING, {"topology": {"nodes": 1}})
FLAVOURS = {"boosting": BOOSTING, "command": OPAQUE, "alone": ALONE, "gpu": overlay(BOOSTING, {"topology": {"gpus_per_node": 1}})}
NEEDS = Needs(3, 1, 0, Rendezvous.DMLC_TRACKER, Success.ALL_RANKS)


def run(data: Data, change: Data | None = None) -> CompiledRun:
    return compiled(overlay(data, change or {}), OPERATORS)


@pytest.mark.parametrize("rendezvous", [kind for kind in Rendezvous if kind not in (Rendezvous.DMLC_TRACKER, Rendezvous.NONE)])
def test_other_rendezvous_are_refused(rendezvous: Rendezvous) -> None:
    refusal = XGBoostJob().bind(NEEDS._replace(rendezvous=rendezvous), EVERY_TARGET)
    assert isinstance(refusal, Refusal)
    assert rendezvous.value in refusal.reason


@pytest.mark.parametrize(
    ("nodes", "roles"), [(1, [("master", 1)]), (2, [("master", 1), ("worker", 1)]), (5, [("master", 1), ("worker", 4)])]
)
def test_the_first_node_is_the_master(nodes: int, roles: list[tuple[str, int]]) -> None:
    binding = XGBoostJob().bind(NEEDS._replace(nodes=nodes), EVERY_TARGET)
    assert isinstance(binding, Binding)
    assert [(role.name, role.pods) for role in binding.roles] == roles
    assert (binding.rank_zero_host, binding.node_index_env) == ("{name}-master-0", "RANK")
    assert ("WORKER_ADDRS" in binding.injects) == (nodes > 1)
    assert not any(name.startswith("DMLC_") for name in binding.injects)


def test_one_run(snapshot: SnapshotAssertion) -> None:
    assert yaml_of(run(BOOSTING)) == snapshot


@needs_crds
@pytest.mark.parametrize("data", FLAVOURS.values(), ids=FLAVOURS)
def test_the_operator_takes_it(data: Data) -> None:
    assert problems_of(run(data)) == []


@pytest.mark.parametrize("data", FLAVOURS.values(), ids=FLAVOURS)
def test_every_line_has_an_answer(data: Data) -> None:
    assert lines_without_answer(run(data)) == []


@pytest.mark.parametrize("data", FLAVOURS.values(), ids=FLAVOURS)
def test_what_the_operator_looks_for_is_there_and_nothing_that_it_sets(data: Data) -> None:
    result = run(data)
    specs = top(result)["spec"]["xgbReplicaSpecs"]
    assert specs["Master"]["replicas"] == 1, "the webhook does not take it for granted"
    for role in specs:
        main = container(result, "xgbReplicaSpecs", role)
        assert main["name"] == "xgboost"
        assert any(port["name"] == "xgboostjob-port" for port in main["ports"])
        assert not environment(main).keys() & result.resolution.binding.injects.keys()


def test_our_trainer_is_told_where_the_tracker_is() -> None:
    result = run(BOOSTING)
    assert result.resolution.spec is not None
    world = result.resolution.spec.world
    assert (world.node_index_env, world.rendezvous.kind) == ("RANK", "dmlc-tracker")
    assert result.plan.rendezvous.host == f"{result.plan.name}-master-0"
    assert {it["restartPolicy"] for it in top(result)["spec"]["xgbReplicaSpecs"].values()} == {"ExitCode"}


def test_a_command_is_told_in_the_names_of_xgboost() -> None:
    result = run(OPAQUE)
    told = environment(container(result, "xgbReplicaSpecs", "Worker"))
    assert told["DMLC_TRACKER_URI"] == f"{result.plan.name}-master-0"
    assert (told["DMLC_TRACKER_PORT"], told["DMLC_NUM_WORKER"]) == ("29500", "3")
    assert "DMLC_TASK_ID" not in told, "the pod's number is in RANK, which the operator sets after all others"


@pytest.mark.parametrize("target", ["indexed-job", "job-set"])
def test_a_command_is_told_the_same_on_other_targets(target: str) -> None:
    result = run(OPAQUE, {"target": target})
    kind, pointer = result.target.templates["node"]
    (manifest,) = (manifest for manifest in result.manifests if GroupKind.of(manifest) == kind)
    template = manifest
    for key in pointer.split("/")[1:]:
        template = template[int(key) if isinstance(template, list) else key]
    told = environment(template["spec"]["containers"][0])
    assert told["DMLC_TRACKER_URI"] == result.plan.rendezvous.host
    assert (told["DMLC_TRACKER_PORT"], told["DMLC_NUM_WORKER"]) == ("29500", "3")
    assert told["DMLC_TASK_ID"]["fieldRef"]["fieldPath"] == "metadata.labels['batch.kubernetes.io/job-completion-index']"


def test_names_that_the_operator_derives_fit() -> None:
    result = run(OPAQUE, {"run": "n" * 40, "topology": {"nodes": 2000}})
    names = [pattern.format(name=result.plan.name) for pattern in result.resolution.binding.generated_names]
    assert [name.partition("-")[2] for name in names] == [f"{result.identity}-master-0", f"{result.identity}-worker-1998"]
    assert all(len(name) <= 63 for name in names)


@pytest.mark.parametrize(
    "patch",
    [
        {"runPolicy": {"cleanPodPolicy": "None"}}, {"runPolicy": {"ttlSecondsAfterFinished": 60}},
        {"xgbReplicaSpecs": {"Master": {"replicas": 2}}}, {"xgbReplicaSpecs": {"Worker": {"restartPolicy": "Never"}}},
        {"xgbReplicaSpecs": {"Helper": {"replicas": 1}}},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_plan_owns_is_not_overridden(patch: Data) -> None:
    objects = [{"target": "xgboost-job", "kind": "XGBoostJob", "patch": {"spec": patch}}]
    assert set(codes(overlay(BOOSTING, {"overrides": {"objects": objects}}), OPERATORS)) == {"TW601"}


def test_a_harmless_override_reaches_its_pods() -> None:
    spec = top(run(BOOSTING, {"overrides": {"pod": {"worker": {"priorityClassName": "high"}}}}))["spec"]["xgbReplicaSpecs"]
    assert spec["Worker"]["template"]["spec"]["priorityClassName"] == "high"


def test_a_variable_of_the_operator_is_refused() -> None:
    assert "TW403" in codes(overlay(OPAQUE, {"env": {"WORKER_ADDRS": "a,b"}}), OPERATORS)


def test_another_topology_is_refused_with_what_would_carry_it() -> None:
    said = message({"target": "xgboost-job"}, OPERATORS)
    assert "XGBoostJob cannot run DDP" in said
    assert "pytorch-job" in said
