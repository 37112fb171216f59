"""What pods ask of their nodes, and what the pods of one role have of their own."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import RUN, Data, codes, command, compiled, findings
from tests.compiler.findings.page import overlay
from tests.compiler.objects import assert_accepted
from tests.compiler.targets import CASES, on, profile_for

from trainwright.findings import CompileError
from trainwright.manifest.pods import pods_in
from trainwright.operators import TARGETS
from trainwright.operators.base import run_pods
from trainwright.reading import validate_data
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_rows
from trainwright.run import Run


def main_of(run: Data, cluster: Data | None = None) -> dict[str, Any]:
    (spec,) = [pod["spec"] for manifest in compiled(run, cluster).manifests for _, pod in pods_in(manifest)]
    return dict(spec["containers"][0])


ALL: Data = {
    "cpu": "none", "memory": "64Gi", "requests": {"cpu": 4, "memory": "32Gi"}, "ephemeral_storage": "100Gi",
    "hugepages": {"2Mi": "5120Mi"}, "devices": {"example.com/fuse": 1},
}


def test_all_that_can_be_asked_for(snapshot: SnapshotAssertion) -> None:
    result = compiled({"resources": ALL})
    facts = {key: value for key, value in plan_facts(result).items() if key.startswith(("cpu", "memory", "resources"))}
    assert {"pod": main_of({"resources": ALL})["resources"], "plan": dict(plan_rows(result))["pod"], "facts": facts} == snapshot


def test_none_at_all() -> None:
    nothing = {"resources": {"cpu": "none", "memory": "none"}, "topology": {"gpus_per_node": 0}}
    assert "resources" not in main_of(nothing)
    gpus = main_of({"resources": {"cpu": "none", "memory": "none", "devices": {"rdma/shared": 0}}})["resources"]
    assert set(gpus["requests"]) == set(gpus["limits"]) == {"nvidia.com/gpu"}


@pytest.mark.parametrize(("target", "run", "threads"), [
    ("indexed-job", {}, {"node": "21"}),
    ("indexed-job", {"resources": {"cpu": "none"}}, {"node": None}),
    ("indexed-job", {"resources": {"cpu": "none"}, "topology": {"gpus_per_node": 0}}, {"node": None}),
    ("indexed-job", {"resources": {"cpu": "none", "requests": {"cpu": 8}}}, {"node": None}),
    ("indexed-job", {"resources": {"cpu": "none"}, "env": {"OMP_NUM_THREADS": "7"}}, {"node": "7"}),
    ("indexed-job", {"resources": {"requests": {"cpu": 180}}}, {"node": "22"}),
    ("indexed-job", {"roles": {"node": {"resources": {"cpu": "none"}}}}, {"node": None}),
    ("mpi-job", {"roles": {"worker": {"resources": {"cpu": "none"}}}}, {"launcher": None, "worker": None}),
    ("ray-job", {"roles": {"head": {"resources": {"cpu": "none"}}}}, {"head": None, "worker": "21"}),
    ("ray-job", {"resources": {"cpu": "none"}}, {"head": "4", "worker": None}),
    ("job-set", {"roles": {"reader": {"pods": 1, "image": RUN["image"], "resources": {"cpu": "none"}}}}, {"reader": None}),
])  # fmt: skip
def test_threads_follow_a_limit_alone(target: str, run: Data, threads: dict[str, str | None]) -> None:
    """A pod without one may use every core of its node: nobody here knows how many these are."""
    decided = compiled(on(target, **run), profile_for(target)).resolution
    roles = [role for role in decided.binding.roles if role.name in threads]
    found = {role.name: {one.name: one.value for one in decided.environment(role)}.get("OMP_NUM_THREADS") for role in roles}
    assert found == threads


def _fabric(count: int) -> Data:
    fabric = {"kind": "efa", "resource": "vpc.amazonaws.com/efa", "resource_count": count, "interface": None, "hca": None}
    return {"node_pools": {"h100": {"fabric": fabric}}}


@pytest.mark.parametrize(("gpus", "stated", "asked"), [
    (8, None, "32"), (4, None, "16"), (1, None, "4"), (4, 8, "8"), (4, 0, None),
])  # fmt: skip
def test_devices_follow_the_share_of_the_gpus_unless_they_are_stated(gpus: int, stated: int | None, asked: str | None) -> None:
    run: Data = {"topology": {"gpus_per_node": gpus}}
    if stated is not None:
        run["resources"] = {"devices": {"vpc.amazonaws.com/efa": stated}}
    amounts = main_of(run, _fabric(32))["resources"]
    assert amounts["limits"].get("vpc.amazonaws.com/efa") == amounts["requests"].get("vpc.amazonaws.com/efa") == asked


@pytest.mark.parametrize(("resources", "code", "place"), [
    ({"devices": {"vpc.amazonaws.com/efa": 33}}, "TW308", "/resources/devices/vpc.amazonaws.com~1efa"),
    ({"devices": {"nvidia.com/gpu": 8}}, "TW326", "/resources/devices/nvidia.com~1gpu"),
    ({"cpu": "none", "requests": {"cpu": 4000}}, "TW308", "/resources/requests/cpu"),
    ({"memory": "9Ti", "requests": {"memory": "8Ti"}}, "TW308", "/resources/requests/memory"),
    ({"memory": "64Gi", "requests": {"memory": "32Gi"}}, "TW325", "/resources/requests"),
    ({"memory": "none"}, "TW325", "/resources/memory"),
    ({"hugepages": {"2Mi": "5000Gi"}}, "TW308", "/resources/hugepages/2Mi"),
    ({"hugepages": {"2Mi": "5Gi", "1Gi": "200Gi"}}, "TW308", "/resources/hugepages/1Gi"),
    ({"hugepages": {"2Mi": "199Gi"}}, None, None),
    ({"cpu": "none", "memory": "none", "hugepages": {"2Mi": "5Gi"}}, "TW603", "/resources/hugepages/2Mi"),
    ({"memory": "none", "cpu": "none", "requests": {"cpu": 1}, "hugepages": {"2Mi": "5Gi"}}, "TW325", "/resources/memory"),
    ({"cpu": "none", "requests": {"cpu": 4}}, None, None),
])  # fmt: skip
def test_what_a_node_cannot_give(resources: Data, code: str | None, place: str | None) -> None:
    said = [(one.code, one.where.pointer) for one in findings({"resources": resources}, _fabric(32)) if one.code != "TW415"]
    assert said[:1] == ([(code, place)] if code else [])


@pytest.mark.parametrize(("resources", "words"), [
    ({"cpu": 2, "requests": {"cpu": 4}}, "requests.cpu is 4, and the limit 2"),
    ({"cpu": "nothing"}, "is not a number of CPUs"),
    ({"hugepages": {"3Mi": "6Mi"}}, "2Mi"),
    ({"hugepages": {"2Mi": "5Mi"}}, "5Mi is no multiple of 2Mi"),
    ({"hugepages": {"1Gi": "5121Mi"}}, "5121Mi is no multiple of 1Gi"),
])  # fmt: skip
def test_what_is_wrong_with_resources(resources: Data, words: str) -> None:
    with pytest.raises(CompileError) as refused:
        validate_data(Run, overlay(RUN, {"resources": resources}), "run.yaml", {})
    assert words in " ".join(f"{one.message} {one.fix}" for one in refused.value.findings)


@pytest.mark.parametrize(("resources", "fix"), [
    ({"memory": "none"}, "write an amount in place of `memory: none`"),
    ({"memory": "none", "requests": {"memory": "8Gi"}}, "write an amount in place of `memory: none`"),
    ({"memory": "64Gi", "requests": {"memory": "8Gi"}}, "remove requests.memory"),
])  # fmt: skip
def test_memory_that_is_not_reserved_says_what_to_write(resources: Data, fix: str) -> None:
    (finding,) = [one for one in findings({"resources": resources}) if one.code == "TW325"]
    assert finding.fix.startswith(fix)


OF_A_WORKER: Data = {
    "cpu": 16, "memory": "8Gi", "ephemeral_storage": "9Gi", "devices": {"vpc.amazonaws.com/efa": 1}, "shared_memory": "1Gi",
}
FIRSTS: dict[str, tuple[str, str, Data]] = {
    "master of torch": ("pytorch-job", "master", {"topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 8}}),
    "master of XGBoost": ("xgboost-job", "master", {"topology": {"kind": "xgboost", "nodes": 2, "gpus_per_node": 1}}),
    "chief": ("tf-job", "chief", {"topology": {"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 8, "chief": True}}),
    "launcher": ("mpi-job", "launcher", {
        "topology": {"kind": "mpi", "nodes": 2, "gpus_per_node": 8, "launcher_is_node": True}, **command("mpirun", "x")}),
}  # fmt: skip


def _mains(run: Data, target: str) -> dict[str, tuple[Data, Data]]:
    """Role -> its main container, and the volumes of its pods by their names."""
    result = compiled(run, overlay(profile_for(target), _fabric(32)))
    pods = [pod for pod in run_pods(TARGETS[target], result.resolution, whole(result)) if pod.role]
    specs = {str(pod.role): pod.found.spec for pod in pods}
    return {role: (spec["containers"][0], {one["name"]: one for one in spec["volumes"]}) for role, spec in specs.items()}


@pytest.mark.parametrize("name", FIRSTS)
def test_what_is_of_the_workers_is_not_of_the_first(name: str) -> None:
    target, first, changes = FIRSTS[name]
    usual, apart = (_mains(on(target, **changes, roles=roles), target) for roles in ({}, {"worker": {"resources": OF_A_WORKER}}))
    limits = apart["worker"][0]["resources"]["limits"]
    assert (limits["cpu"], limits["memory"], limits["ephemeral-storage"]) == ("16", "8Gi", "9Gi")
    assert apart["worker"][1]["shm"]["emptyDir"]["sizeLimit"] == "1Gi"
    assert apart[first][0]["resources"] == usual[first][0]["resources"]
    assert apart[first][1]["shm"] == usual[first][1]["shm"]
    assert apart[first][0]["env"] == usual[first][0]["env"] or target == "mpi-job", "of all ranks that the launcher starts"


def test_a_master_has_its_own() -> None:
    run = on("pytorch-job", **FIRSTS["master of torch"][2])
    own = {"cpu": 24, "memory": "10Gi", "shared_memory": "3Gi"}
    pods = _mains(run | {"roles": {"master": {"resources": own}}}, "pytorch-job")
    env = {role: {one["name"]: one.get("value") for one in main["env"]} for role, (main, _) in pods.items()}
    assert [env[role]["OMP_NUM_THREADS"] for role in ("master", "worker")] == ["3", "21"]
    assert [pods[role][1]["shm"]["emptyDir"]["sizeLimit"] for role in ("master", "worker")] == ["3Gi", "16Gi"]
    fitted = _mains(run | {"roles": {"master": {"resources": {"memory": "10Gi"}}}}, "pytorch-job")
    assert fitted["master"][1]["shm"]["emptyDir"]["sizeLimit"] == "5Gi", "half of its memory"


def test_the_plan_tells_roles_apart_where_they_differ() -> None:
    target, _, changes = FIRSTS["master of torch"]
    one, two = (dict(plan_rows(compiled(on(target, **changes, roles=roles), profile_for(target))))["pod"]
                for roles in ({}, {"worker": {"resources": {"cpu": 16, "memory": "80Gi"}}}))
    assert one.startswith("172 CPU, 1800Gi memory")
    assert two.startswith("master: 172 CPU, 1800Gi memory")
    assert "; worker: 16 CPU, 80Gi memory (as asked), shared memory 16Gi" in two


def test_shared_memory_of_a_launcher() -> None:
    run = on("mpi-job", roles={"launcher": {"resources": {"memory": "4Gi", "shared_memory": "1Gi"}}})
    assert _mains(run, "mpi-job")["launcher"][1]["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    assert "shm" not in _mains(on("mpi-job"), "mpi-job")["launcher"][1]


@pytest.mark.parametrize(("target", "resources", "roles", "code", "place"), [
    ("pytorch-job", {}, {"worker": {"memory": 64}}, "TW218", "/roles/worker/resources/memory"),
    ("pytorch-job", {}, {"master": {"cpu": 1}}, "TW218", "/roles/master/resources/cpu"),
    ("pytorch-job", {}, {"master": {"shared_memory": 16}}, "TW218", "/roles/master/resources/shared_memory"),
    ("pytorch-job", {}, {"master": {"memory": "5Gi", "shared_memory": "16Gi"}}, "TW308", "/roles/master/resources/shared_memory"),
    ("pytorch-job", {"shared_memory": "16Gi"}, {"master": {"memory": "5Gi"}}, "TW308", "/resources/shared_memory"),
    ("pytorch-job", {"cpu": 4000}, {"worker": {"cpu": 16}}, "TW308", "/resources/cpu"),
    ("mpi-job", {}, {"launcher": {"cpu": "none", "memory": "none", "hugepages": {"2Mi": "5Gi"}}}, "TW603",
     "/roles/launcher/resources/hugepages/2Mi"),
    ("mpi-job", {}, {"launcher": {"cpu": "10m"}}, None, None),
    ("mpi-job", {"memory": "none", "shared_memory": "2000Gi"}, {}, "TW308", "/resources/shared_memory"),
    ("ray-job", {}, {"head": {"shared_memory": "1Gi"}}, None, None),
    ("ray-job", {}, {"head": {"shared_memory": "64Gi"}}, "TW308", "/roles/head/resources/shared_memory"),
    ("ray-job", {"shared_memory": "2000Gi"}, {}, "TW308", "/resources/shared_memory"),
])  # fmt: skip
def test_amounts_of_a_role_are_held_to_the_rules(
    target: str, resources: Data, roles: Data, code: str | None, place: str | None
) -> None:
    stated = {name: {"resources": one} for name, one in roles.items()}
    two = {"topology": {"nodes": 2}} if target == "pytorch-job" else {}
    run = overlay(on(target, resources=resources, roles=stated), two)
    said = [(one.code, str(one.where.pointer)) for one in findings(run, profile_for(target))]
    of_amounts = [(one, at) for one, at in said if one in ("TW207", "TW218", "TW308", "TW603") and "resources" in at]
    assert of_amounts == ([(code, place)] if code else [])


@pytest.mark.parametrize("name", CASES)
def test_each_role_of_each_target_takes_what_is_its_own(name: str) -> None:
    image = "registry.example.com/team/own@sha256:" + "a" * 64
    amounts, own = {"memory": "24Gi", "requests": {"cpu": "3"}}, {} if name == "ray-job" else {"image": image}
    roles = {role: {"resources": amounts, "env": {"APP": role}, **own} for role in CASES[name].roles}
    result = compiled(on(name, roles=roles), profile_for(name))
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    pods = [pod for pod in run_pods(TARGETS[name], result.resolution, whole(result)) if pod.role]
    assert {pod.role for pod in pods} == set(roles)
    for pod in pods:
        main = pod.found.spec["containers"][0]
        assert (main["resources"]["limits"]["memory"], main["resources"]["requests"]["cpu"]) == ("24Gi", "3")
        assert [one["value"] for one in main["env"] if one["name"] == "APP"] == [pod.role]


def whole(result: Any) -> list[Any]:
    """The objects with whole pods in them, before a target takes its own out of a shared one."""
    from trainwright.manifest.provenance import split

    return [split(tree)[0] for tree in TARGETS[result.plan.target].lower(result.resolution)]


def test_the_entrypoint_of_an_image_runs_with_arguments() -> None:
    run = command() | {"workload": {"kind": "command", "command": None, "args": ["--config", "/etc/app.yaml"]}}
    main = main_of(run | {"security": {"user": 1000}})
    assert "command" not in main
    assert main["args"] == ["--config", "/etc/app.yaml"]


def test_a_command_of_the_role_replaces_that_of_the_plan() -> None:
    work = {"kind": "command", "command": ["mpirun", "-np", "16", "app"]}
    own = {"worker": {"command": ["/usr/sbin/sshd", "-De"]}}
    run = on("mpi-job", workload=work, roles=own, batch=None, learning_rate=None, trainer_version=None)
    result = compiled(run, profile_for("mpi-job"))
    found = run_pods(TARGETS["mpi-job"], result.resolution, result.manifests)
    pods = {pod.role: pod.found.spec["containers"][0] for pod in found}
    assert pods["worker"]["command"] == ["/usr/sbin/sshd", "-De"]
    assert "readinessProbe" not in pods["worker"]


@pytest.mark.parametrize(("roles", "code"), [
    ({"launcher": {"env": {"A": "1"}}}, "TW327"),
    ({"node": {"image": "registry.example.com/x:latest"}}, "TW305"),
    ({"node": {"image": "elsewhere.example.com/x:latest"}}, "TW306"),
    ({"node": {"env": {"HF_TOKEN": "hf_" + "a" * 34}}}, "TW409"),
    ({"node": {"env": {"RANK": "0"}}}, "TW403"),
    ({"node": {"env": {"NCCL_DEBGU": "INFO"}}}, "TW412"),
    ({"node": {"resources": {"cpu": 4000}}}, "TW308"),
])  # fmt: skip
def test_rules_hold_for_roles_too(roles: Data, code: str) -> None:
    assert code in codes({"roles": roles}, {"registries": ["registry.example.com"]})


def test_a_supervisor_starts_the_program_of_every_role() -> None:
    with pytest.raises(CompileError, match="started by the supervisor"):
        validate_data(Run, overlay(RUN, {"roles": {"node": {"args": ["x"]}}}), "run.yaml", {})


def test_the_plan_has_rows_for_devices_and_roles_where_a_run_states_them() -> None:
    assert not {"devices", "roles"} & dict(plan_rows(compiled({}))).keys()
    stated = {"vpc.amazonaws.com/efa": 8, "example.com/fuse": 1, "example.com/none": 0}
    rows = dict(plan_rows(compiled({"resources": {"devices": stated}})))
    assert rows["devices"] == "1 example.com/fuse, no example.com/none, 8 vpc.amazonaws.com/efa a pod (as asked)"
    work = {"kind": "command", "command": ["mpirun", "-np", "16", "app"]}
    own = {"launcher": {"image": "registry.example.com/x:v1", "args": ["--rate", "1 e"], "env": {"LEVEL": "1"}},
           "worker": {"command": ["/usr/sbin/sshd", "-De"], "resources": {"cpu": 4}}}
    run = on("mpi-job", workload=work, roles=own, batch=None, learning_rate=None, trainer_version=None)
    assert dict(plan_rows(compiled(run, profile_for("mpi-job"))))["roles"] == (
        "launcher: image registry.example.com/x:v1, arguments --rate '1 e', variables LEVEL; worker: runs /usr/sbin/sshd -De"
    )
