"""TensorFlow with parameter servers: which pods there are, what they run, and what of a node they take."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.controllers import pods
from tests.compiler.example import codes, command, compiled, message
from tests.compiler.objects import container, lines_without_answer, problems_of, top
from tests.compiler.targets import CASES, on, profile_for

from trainwright.compile import CompiledRun

Data = dict[str, Any]
SHAPE: Data = {"kind": "parameter-server", "nodes": 3, "gpus_per_node": 8, "parameter_servers": 2}
WORK = command("python", "/app/train.py")


def run(**fields: Any) -> CompiledRun:
    return compiled(on("tf-job", **{"topology": SHAPE, **WORK, **fields}), profile_for("tf-job"))


def replicas(result: CompiledRun) -> dict[str, int]:
    return {role: one["replicas"] for role, one in top(result)["spec"]["tfReplicaSpecs"].items()}


def test_servers_are_beside_the_workers_and_so_is_a_coordinator() -> None:
    assert replicas(run()) == {"Worker": 3, "PS": 2}
    directed = run(topology={**SHAPE, "coordinator": True})
    assert replicas(directed) == {"Chief": 1, "Worker": 3, "PS": 2}
    assert directed.plan.world.size == run().plan.world.size == 3
    assert directed.resolution.binding.rank_zero_host == "{name}-chief-0"
    for result in (run(), directed):
        assert problems_of(result) == lines_without_answer(result) == []


def test_workers_alone_take_gpus_and_every_pod_runs_the_command() -> None:
    result = run(topology={**SHAPE, "coordinator": True}, roles={"ps": {"resources": {"memory": "64Gi"}}})
    mains = {role: container(result, "tfReplicaSpecs", role) for role in ("Chief", "Worker", "PS")}
    assert {role: "nvidia.com/gpu" in main["resources"]["limits"] for role, main in mains.items()} == {
        "Chief": False, "Worker": True, "PS": False,
    }  # fmt: skip
    assert {role: main["resources"]["limits"]["memory"] for role, main in mains.items() if role != "Worker"} == {
        "Chief": "16Gi", "PS": "64Gi",
    }  # fmt: skip
    assert all(main["command"] == ["python", "/app/train.py"] for main in mains.values())
    assert all({"name": "tfjob-port", "containerPort": 2222, "protocol": "TCP"} in main["ports"] for main in mains.values())


def test_a_hook_is_in_every_pod_that_runs_the_command() -> None:
    result = run(pre_stop={"sleep": "5s"})
    assert all("lifecycle" in container(result, "tfReplicaSpecs", role) for role in ("Worker", "PS"))


def test_each_number_is_explained_by_its_own_field() -> None:
    answers = run(topology={**SHAPE, "coordinator": True}).provenance()[-1]
    found = [answers[f"/spec/tfReplicaSpecs/{role}/replicas"].source for role in ("Chief", "Worker", "PS")]
    assert found == ["run:/topology/coordinator", "run:/topology/nodes", "run:/topology/parameter_servers"]


def test_one_worker_beside_a_server_has_a_tf_config() -> None:
    result = run(topology={**SHAPE, "nodes": 1, "parameter_servers": 1})
    assert "TW422" not in [finding.code for finding in result.findings]
    assert "TF_CONFIG" in result.resolution.binding.injects


def test_only_a_command_fits() -> None:
    work: Data = {"workload": {"kind": "script", "command": ["python", "train.py"]}, "batch": None, "learning_rate": None}
    assert "a parameter server has no rank" in message(on("tf-job", topology=SHAPE, **work), profile_for("tf-job"))


@pytest.mark.parametrize("target", CASES.keys() - {"tf-job", "volcano-job"})
def test_other_targets_refuse_it(target: str) -> None:
    assert codes(on(target, **{"topology": SHAPE, **WORK}), profile_for(target)) == ["TW401"]


def test_servers_are_no_part_of_another_topology() -> None:
    other = on("tf-job", topology={"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 8, "parameter_servers": 1})
    with pytest.raises(Exception, match="parameter_servers"):
        compiled(other, profile_for("tf-job"))


def test_an_image_may_need_no_words() -> None:
    result = run(workload={"kind": "command", "args": []})
    assert not {"command", "args"} & container(result, "tfReplicaSpecs", "PS").keys()


VOLCANO = profile_for("volcano-job")


def on_volcano(**fields: Any) -> CompiledRun:
    return compiled(on("volcano-job", **{"topology": SHAPE, **WORK, **fields}), VOLCANO)


@pytest.mark.parametrize(("coordinator", "last"), [(False, "worker"), (True, "chief")])
def test_on_volcano_each_role_is_a_task_and_the_chief_ends_the_run(coordinator: bool, last: str) -> None:
    result = on_volcano(topology={**SHAPE, "coordinator": coordinator})
    spec = top(result)["spec"]
    assert {task["name"]: task["replicas"] for task in spec["tasks"]} == {
        "worker": 3, "ps": 2, **({"chief": 1} if coordinator else {}),
    }  # fmt: skip
    assert [task["name"] for task in spec["tasks"] if "policies" in task] == [last]
    assert "minSuccess" not in spec, "servers never end"
    assert spec["minAvailable"] == (6 if coordinator else 5)
    assert spec["plugins"]["tensorflow"] == []
    assert problems_of(result) == lines_without_answer(result) == []


def test_volcanos_pods_are_told_what_the_plan_says() -> None:
    result = on_volcano(topology={**SHAPE, "coordinator": True})
    assert len(list(pods(result.manifests))) == 6
    assert sorted(result.resolution.binding.injects) == [
        "TF_CONFIG", "VC_CHIEF_HOSTS", "VC_CHIEF_NUM", "VC_PS_HOSTS", "VC_PS_NUM", "VC_TASK_INDEX", "VC_WORKER_HOSTS",
        "VC_WORKER_NUM", "VK_TASK_INDEX",
    ]  # fmt: skip
    assert codes(on("volcano-job", topology=SHAPE, env={"TF_CONFIG": "{}"}, **WORK), VOLCANO) == ["TW403"]


def test_an_override_reaches_one_role_on_volcano() -> None:
    tasks = top(on_volcano(overrides={"pod": {"ps": {"priorityClassName": "high"}}}))["spec"]["tasks"]
    assert [task["template"]["spec"].get("priorityClassName") for task in tasks] == [None, "high"]
    node = on("volcano-job", topology=SHAPE, overrides={"pod": {"node": {"priorityClassName": "high"}}}, **WORK)
    assert codes(node, VOLCANO) == ["TW602"]


def test_workers_that_mirror_are_one_task() -> None:
    result = on_volcano(topology={"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 8})
    assert [(task["name"], task["replicas"]) for task in top(result)["spec"]["tasks"]] == [("worker", 2)]
