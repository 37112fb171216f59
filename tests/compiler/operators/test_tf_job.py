"""TFJob: bindings, objects, and what of them is whose."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import EVERY_TARGET, Data, codes, command, compiled, message, script
from tests.compiler.findings.page import overlay
from tests.compiler.objects import container, environment, lines_without_answer, needs_crds, problems_of, top, yaml_of

from trainwright.compile import CompiledRun
from trainwright.handshake import Binding, Needs, Refusal, Rendezvous, Success
from trainwright.operators.training_operator.tf_job import TFJob
from trainwright.rendezvous.tensorflow import Tasks

OPERATOR: Data = {"operators": {"training-operator": {"version": "1.9.4"}}}
GANG: Data = {
    "operators": {"training-operator": {"version": "1.9.4", "gang_scheduler": "scheduler-plugins-scheduler"}},
    "scheduling": {"gang": "coscheduling", "version": "0.33"},
}
WORKERS: Data = {
    "target": "tf-job", "topology": {"kind": "multi-worker-mirrored", "nodes": 3, "gpus_per_node": 8},
}
CHIEF: Data = overlay(WORKERS, {"topology": {"chief": True}})
ALONE: Data = overlay(WORKERS, {"topology": {"nodes": 1}})
OPAQUE: Data = {**CHIEF, **command("python", "train.py")}
FLAVOURS = {
    "workers": WORKERS, "chief": CHIEF, "alone": ALONE, "chief alone": overlay(CHIEF, {"topology": {"nodes": 1}}),
    "command": OPAQUE, "script": {**CHIEF, **script("python", "train.py")},
}
NEEDS = Needs(3, 1, 8, Rendezvous.TF_CONFIG, Success.CHIEF, replicas_per_process=8)


def run(data: Data, change: Data | None = None, cluster: Data = OPERATOR) -> CompiledRun:
    return compiled(overlay(data, change or {}), cluster)


def roles(needs: Needs) -> list[tuple[str, int]]:
    binding = TFJob().bind(needs, EVERY_TARGET)
    assert isinstance(binding, Binding)
    return [(role.name, role.pods) for role in binding.roles]


@pytest.mark.parametrize("rendezvous", [kind for kind in Rendezvous if kind not in (Rendezvous.TF_CONFIG, Rendezvous.NONE)])
def test_other_rendezvous_are_refused(rendezvous: Rendezvous) -> None:
    refusal = TFJob().bind(NEEDS._replace(rendezvous=rendezvous), EVERY_TARGET)
    assert isinstance(refusal, Refusal)
    assert rendezvous.value in refusal.reason


def test_the_first_node_is_worker_0_or_a_chief() -> None:
    assert roles(NEEDS) == [("worker", 3)]
    assert roles(NEEDS._replace(of_rendezvous=Tasks(chief=True))) == [("chief", 1), ("worker", 2)]
    assert roles(NEEDS._replace(of_rendezvous=Tasks(chief=True), nodes=1)) == [("chief", 1)]
    for chief, host in ((False, "{name}-worker-0"), (True, "{name}-chief-0")):
        binding = TFJob().bind(NEEDS._replace(of_rendezvous=Tasks(chief)), EVERY_TARGET)
        assert isinstance(binding, Binding)
        assert binding.rank_zero_host == host


def test_tf_config_is_the_operators_where_it_writes_one() -> None:
    several, alone = TFJob().bind(NEEDS, EVERY_TARGET), TFJob().bind(NEEDS._replace(nodes=1), EVERY_TARGET)
    assert isinstance(several, Binding)
    assert isinstance(alone, Binding)
    assert (list(several.injects), list(alone.injects)) == (["TF_CONFIG"], [])
    assert "TW403" in codes(overlay(WORKERS, {"env": {"TF_CONFIG": "{}"}}), OPERATOR)
    assert "TW403" not in codes(overlay(ALONE, {"env": {"TF_CONFIG": "{}"}}), OPERATOR)


def test_one_run(snapshot: SnapshotAssertion) -> None:
    assert yaml_of(run(CHIEF)) == snapshot


@needs_crds
@pytest.mark.parametrize("data", FLAVOURS.values(), ids=FLAVOURS)
@pytest.mark.parametrize("cluster", [OPERATOR, GANG], ids=["plain", "gang"])
def test_the_operator_takes_it(data: Data, cluster: Data) -> None:
    assert problems_of(run(data, cluster=cluster)) == []


@pytest.mark.parametrize("data", FLAVOURS.values(), ids=FLAVOURS)
@pytest.mark.parametrize("cluster", [OPERATOR, GANG], ids=["plain", "gang"])
def test_every_line_has_an_answer(data: Data, cluster: Data) -> None:
    assert lines_without_answer(run(data, cluster=cluster)) == []


@pytest.mark.parametrize("data", FLAVOURS.values(), ids=FLAVOURS)
def test_what_the_operator_looks_for_is_there_and_nothing_that_it_sets(data: Data) -> None:
    result = run(data)
    for role in top(result)["spec"]["tfReplicaSpecs"]:
        main = container(result, "tfReplicaSpecs", role)
        assert main["name"] == "tensorflow", "TF_CONFIG goes into the container of this name and no other"
        assert {"name": "tfjob-port", "containerPort": 2222, "protocol": "TCP"} in main["ports"]
        assert not environment(main).keys() & result.resolution.binding.injects.keys()


def test_the_strategy_gets_workers_and_nothing_that_it_would_wait_for() -> None:
    for data in FLAVOURS.values():
        spec = top(run(data))["spec"]
        assert spec["tfReplicaSpecs"].keys() <= {"Chief", "Worker"}
        assert "enableDynamicWorker" not in spec
        assert spec["successPolicy"] == ""
        assert spec["runPolicy"]["cleanPodPolicy"] == "Running"


def test_exit_codes_decide_where_they_mean_something() -> None:
    assert {it["restartPolicy"] for it in top(run(CHIEF))["spec"]["tfReplicaSpecs"].values()} == {"ExitCode"}
    assert {it["restartPolicy"] for it in top(run(OPAQUE))["spec"]["tfReplicaSpecs"].values()} == {"OnFailure"}


def test_names_that_the_operator_derives_fit() -> None:
    result = run(OPAQUE, {"run": "n" * 40, "topology": {"nodes": 1500}})
    names = [pattern.format(name=result.plan.name) for pattern in result.resolution.binding.generated_names]
    assert [name.partition("-")[2] for name in names] == [f"{result.identity}-chief-0", f"{result.identity}-worker-1498"]
    assert all(len(name) <= 63 for name in names)


@pytest.mark.parametrize(
    "patch",
    [
        {"successPolicy": "AllWorkers"}, {"enableDynamicWorker": True}, {"runPolicy": {"cleanPodPolicy": "None"}},
        {"runPolicy": {"ttlSecondsAfterFinished": 60}}, {"runPolicy": {"suspend": True}},
        {"tfReplicaSpecs": {"Worker": {"replicas": 5}}}, {"tfReplicaSpecs": {"Chief": {"restartPolicy": "Never"}}},
        {"tfReplicaSpecs": {"Evaluator": {"replicas": 1}}}, {"tfReplicaSpecs": {"PS": {"replicas": 1}}},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_plan_owns_is_not_overridden(patch: Data) -> None:
    objects = [{"target": "tf-job", "kind": "TFJob", "patch": {"spec": patch}}]
    assert set(codes(overlay(CHIEF, {"overrides": {"objects": objects}}), OPERATOR)) == {"TW601"}


def test_a_harmless_override_reaches_its_pods() -> None:
    spec = top(run(CHIEF, {"overrides": {"pod": {"worker": {"priorityClassName": "high"}}}}))["spec"]["tfReplicaSpecs"]
    assert spec["Worker"]["template"]["spec"]["priorityClassName"] == "high"
    assert "priorityClassName" not in spec["Chief"]["template"]["spec"]


def test_another_topology_is_refused_with_what_would_carry_it() -> None:
    said = message({"target": "tf-job"}, OPERATOR)
    assert "TFJob cannot run DDP" in said
    assert "pytorch-job" in said


def test_a_coordinator_would_wait_for_an_evaluator() -> None:
    topology = {"kind": "parameter-server", "nodes": 3, "gpus_per_node": 8, "parameter_servers": 2, "coordinator": True}
    servers: Data = {"target": "tf-job", "topology": topology, **command("python", "train.py")}
    evaluator = {"roles": {"evaluator": {"pods": 1, "command": ["python", "evaluate.py"]}}}
    assert codes(servers, OPERATOR) == []
    assert codes(servers | evaluator, OPERATOR) == ["TW331"]
    assert "let the program remove cluster.evaluator from TF_CONFIG" in message(servers | evaluator, OPERATOR)
