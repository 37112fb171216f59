"""Roles that a run has besides those of its topology: which targets carry them, in which order they start, and what ends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.controllers import Pod, pods
from tests.compiler.example import RUN, Data, codes, command, compiled, findings, message, script
from tests.compiler.findings.page import overlay
from tests.compiler.manifest.data.prepared import prepared
from tests.compiler.objects import assert_accepted, top
from tests.compiler.rehearsal.stage import complete, play
from tests.compiler.targets import CASES, INSTALLED, on, profile_for

from trainwright.compile import CompiledRun
from trainwright.findings import CompileError
from trainwright.reading import validate_data
from trainwright.rehearsal import UsageError
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_rows
from trainwright.run import Run

IMAGE = f"registry.example.com/service@sha256:{'a' * 64}"
SERVICE: Data = {"pods": 2, "image": IMAGE, "command": ["serve"], "ports": {"grpc": 9000}, "starts": "before"}
EVALUATOR: Data = {"pods": 1, "gpus": 1, "command": ["python", "evaluate.py"], "starts": "after"}
BOTH: Data = {"data-service": SERVICE, "evaluator": EVALUATOR}
IN_ORDER = [name for name, case in CASES.items() if case.orders_start]
CARRIED = [name for name, case in CASES.items() if case.further]


def with_roles(target: str, roles: Data, **run: Any) -> CompiledRun:
    return compiled(on(target, roles=roles, gang=False, **run), profile_for(target))


def made(result: CompiledRun) -> dict[str, list[Pod]]:
    """Role -> its pods, as the controller makes them."""
    found: dict[str, list[Pod]] = {}
    for pod in pods(result.manifests):
        found.setdefault(pod.role, []).append(pod)
    return found


@pytest.mark.parametrize("target", IN_ORDER)
def test_each_has_pods_of_its_own_and_all_find_them(target: str) -> None:
    result = with_roles(target, BOTH)
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    found = made(result)
    assert {role: len(there) for role, there in found.items()} == {"node": 2, "data-service": 2, "evaluator": 1}
    hosts = ",".join(pod.host for pod in found["data-service"])
    assert {pod.environment["DATA_SERVICE_HOSTS"] for there in found.values() for pod in there} == {hosts}
    (evaluator,) = found["evaluator"]
    assert evaluator.environment["MASTER_ADDR"] == found["node"][0].host
    assert [pod.environment["NODE_RANK"] for pod in found["data-service"]] == ["0", "1"]
    assert found["data-service"][0].environment["NNODES"] == "2"


@pytest.mark.parametrize("target", IN_ORDER)
def test_they_are_told_nothing_that_is_for_ranks(target: str) -> None:
    for work in ({}, command("torchrun", "train.py")):
        found = made(with_roles(target, BOTH, **work))
        for pod in (*found["data-service"], *found["evaluator"]):
            assert not [name for name in pod.environment if name.startswith(("PET_", "NCCL_")) or name == "TRAINWRIGHT_SPEC"]
            assert "TRAINWRIGHT_CHECKPOINT_DIRECTORY" not in pod.environment, "nothing is mounted there"
            assert "/etc/trainwright" not in [mount["mountPath"] for mount in pod.container.get("volumeMounts", [])]


@pytest.mark.parametrize("target", IN_ORDER)
def test_they_go_to_pools_of_their_own_and_take_gpus_of_their_own(target: str) -> None:
    result = with_roles(target, {**BOTH, "extra": {"pods": 1, "command": ["a"], "node_pool": "h100"}})
    pools = {role.name: result.resolution.pool_of(role)[0] for role in result.resolution.binding.roles}
    assert pools == {"node": "h100", "data-service": "cpu", "evaluator": "h100", "extra": "h100"}
    found = made(result)
    assert found["evaluator"][0].container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in found["data-service"][0].container["resources"]["limits"]
    tolerated = [pod.spec["tolerations"] for pod in (found["data-service"][0], found["evaluator"][0])]
    assert [one["key"] for one in tolerated[0]] == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert tolerated[1]
    assert plan_facts(result)["gpus"] == 17
    assert plan_facts(result)["roles.evaluator.gpus"] == 1


def test_the_order_of_start_and_the_end_on_a_job_set(snapshot: SnapshotAssertion) -> None:
    spec = top(with_roles("job-set", {**BOTH, "cache": {"pods": 1, "image": IMAGE, "starts": "before"}}))["spec"]
    order = {job["name"]: job.get("dependsOn") for job in spec["replicatedJobs"]}
    assert {"order": order, "success": spec["successPolicy"], "failure": spec["failurePolicy"]} == snapshot


@pytest.mark.parametrize("target", ["job-set", "train-job"])
def test_one_that_starts_first_has_ended_before_the_others_start(target: str) -> None:
    first = {"pods": 1, "image": IMAGE, "command": ["prepare"], "starts": "first"}
    result = with_roles(target, {"index": first, **BOTH})
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    (owner,) = (one for one in result.manifests if one["kind"] in ("JobSet", "TrainingRuntime"))
    spec = owner["spec"] if target == "job-set" else owner["spec"]["template"]["spec"]
    assert {job["name"]: job.get("dependsOn") for job in spec["replicatedJobs"]} == {
        "index": None,
        "data-service": [{"name": "index", "status": "Complete"}],
        "node": [{"name": "data-service", "status": "Ready"}],
        "evaluator": [{"name": "node", "status": "Ready"}],
    }
    alone = with_roles(target, {"index": first})
    assert "ended before the ranks start" in str(list(plan_rows(alone)))


@pytest.mark.parametrize("code", [0, 3])
def test_a_rehearsal_starts_the_ranks_once_that_role_has_ended_with_0(code: int, tmp_path: Path) -> None:
    there = "/checkpoints/index"
    made_first = f"import pathlib, sys; pathlib.Path('{there}').write_text('whole'); sys.exit({code})"
    read_then = f"import pathlib; assert pathlib.Path('{there}').read_text() == 'whole'; print('read')"
    mounts = {"/checkpoints": {"claim": "checkpoints"}}
    index = {"pods": 1, "command": ["python", "-c", made_first], "starts": "first", "mounts": mounts}
    work = {**command("python", "-c", read_then), "checkpoints": {"by": "own"}, "restarts": 0}
    outcome, recorder = play(list(with_roles("job-set", {"index": index}, **work).manifests), tmp_path)
    assert outcome.status == ("Failed" if code else "Complete")
    assert [line for _, line in recorder.lines].count("read") == (0 if code else 2)


def test_a_run_is_complete_whatever_role_comes_first(tmp_path: Path) -> None:
    service = {"pods": 1, "command": ["python", "-c", ""], "starts": "before"}
    found = list(with_roles("job-set", {"data-service": service}, **script("python", "-c", "")).manifests)
    complete(found, tmp_path)
    with pytest.raises(UsageError, match="this run is complete"):
        play(found, tmp_path, faults=(("kill", "node-0@1"),))


def test_a_task_of_volcano_waits_for_no_end() -> None:
    first = {"pods": 1, "image": IMAGE, "command": ["prepare"], "starts": "first"}
    said = findings(on("volcano-job", roles={"index": first}, gang=False), profile_for("volcano-job"))
    assert [one.code for one in said] == ["TW401"]
    assert "not until they have ended" in said[0].message


@pytest.mark.parametrize(("work", "ends"), [({}, "restart"), ({}, "fail"), (command("torchrun", "train.py"), "restart")])
def test_only_codes_of_our_supervisor_end_a_job_set(work: Data, ends: str) -> None:
    spec = top(with_roles("job-set", BOTH, on_disruption=ends, **work))["spec"]
    policies = {job["name"]: job["template"]["spec"]["podFailurePolicy"]["rules"] for job in spec["replicatedJobs"]}
    (own,) = policies["evaluator"]
    assert own == {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    rules = {rule["action"]: rule.get("targetReplicatedJobs") for rule in spec["failurePolicy"]["rules"]}
    uncounted, final = "RestartJobSetAndIgnoreMaxRestarts", "FailJobSet"
    if ends == "fail":
        assert rules == {final: None}
    else:
        assert rules == ({uncounted: None} if work else {final: ["node"], uncounted: ["data-service", "evaluator"]})


@pytest.mark.parametrize("must_end", [True, False])
def test_who_must_end(must_end: bool) -> None:
    roles = {"data-service": {**SERVICE, "must_end": must_end}, "evaluator": {**EVALUATOR, "must_end": must_end}}
    assert ("targetReplicatedJobs" in top(with_roles("job-set", roles))["spec"]["successPolicy"]) is not must_end
    volcano = top(with_roles("volcano-job", roles))["spec"]
    assert volcano.get("minSuccess") == (5 if must_end else None)
    done = {"action": "CompleteJob", "event": "TaskCompleted"}
    ending = [task["name"] for task in volcano["tasks"] if done in task.get("policies", [])]
    assert ending == ([] if must_end else ["node"])
    one = {"data-service": SERVICE, "evaluator": {**EVALUATOR, "must_end": True}}
    policy = top(with_roles("job-set", one))["spec"]["successPolicy"]
    assert policy == {"operator": "All", "targetReplicatedJobs": ["node", "evaluator"]}
    assert "every pod" in message(on("volcano-job", roles=one, gang=False), profile_for("volcano-job"))


SHAPES: dict[str, Data] = {
    "ddp": {"kind": "ddp"}, "jax": {"kind": "jax"}, "horovod": {"kind": "horovod"}, "ray": {"kind": "ray", "version": "2.52.0"},
    "launcher alone": {"kind": "horovod", "nodes": 1, "launcher_is_node": True},
    "mirrored": {"kind": "multi-worker-mirrored"}, "mirrored, chief": {"kind": "multi-worker-mirrored", "chief": True},
    "servers": {"kind": "parameter-server"}, "servers, coordinator": {"kind": "parameter-server", "coordinator": True},
}  # fmt: skip
THERE = [
    *((target, shape) for target in ("job-set", "train-job") for shape in ("ddp", "jax")),
    *(("train-job", shape) for shape in ("horovod", "launcher alone")), ("ray-job", "ray"),
    *(("volcano-job", shape) for shape in SHAPES if shape not in ("jax", "ray")),
    ("tf-job", "servers"), ("tf-job", "servers, coordinator"),
]


def shaped(target: str, shape: str, role: Data | None = None, name: str = "data-service", **run: Any) -> Data:
    """A run of a command with one further role."""
    name = "evaluator" if target == "tf-job" else name
    topology = {"nodes": 2, "gpus_per_node": 0, **SHAPES[shape]}
    stated: Data = {"pods": 2, "image": IMAGE} if target == "ray-job" else {"pods": 2, "image": IMAGE, "command": ["serve"]}
    roles = {name: stated | (role or {})}
    return on(target, **command("start"), topology=topology, roles=roles, gang=False, **run)


@pytest.mark.parametrize(("target", "shape"), THERE)
def test_every_variable_has_one_value(target: str, shape: str) -> None:
    """Of what tells a role its place, the run's own value is for the ranks."""
    run = shaped(target, shape, {"pods": 3}, env={"NNODES": str(SHAPES[shape].get("nodes", 2)), "APP": "a"})
    result = compiled(overlay(run, {"roles": {next(iter(run["roles"])): {"env": {"OMP_NUM_THREADS": "3"}}}}), profile_for(target))
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    further = [pod for pod in pods(result.manifests) if pod.role in run["roles"]]
    assert [pod.environment["OMP_NUM_THREADS"] for pod in further] == ["3"] * 3
    if target != "ray-job":
        assert {pod.environment["NNODES"] for pod in further} == {"3"}
        assert [pod.environment["NODE_RANK"] for pod in further] == ["0", "1", "2"]
    for pod in pods(result.manifests):
        names = [one["name"] for one in pod.container["env"]]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(("env", "owner"), [
    ({"DATA_SERVICE_HOSTS": "a"}, "the plan"), ({"JOB_COMPLETION_INDEX": "a"}, "the controller"),
])
def test_what_tells_others_of_a_role_is_the_plans(env: Data, owner: str) -> None:
    (found,) = findings(shaped("job-set", "ddp", env=env), profile_for("job-set"))
    assert (found.code, found.message.partition(" is set by ")[2][: len(owner)]) == ("TW403", owner)


def test_a_role_of_several_pods_may_start_ranks_of_its_own() -> None:
    own = {"env": {"MASTER_PORT": "29600", "WORLD_SIZE": "2", "PET_NNODES": "2"}}
    assert findings(shaped("job-set", "ddp", own), profile_for("job-set")) == []
    assert codes(shaped("job-set", "ddp", {"env": {"NNODES": "3"}}), profile_for("job-set")) == ["TW403"]


@pytest.mark.parametrize(("target", "shape"), [one for one in THERE if one[0] == "volcano-job" and one[1] != "ddp"])
def test_no_task_ends_beside_the_one_that_ends_the_job(target: str, shape: str) -> None:
    ends = {"mirrored": "worker", "mirrored, chief": "chief", "servers": "worker", "servers, coordinator": "chief"}
    tasks = top(compiled(shaped(target, shape), profile_for(target)))["spec"]["tasks"]
    done = {"action": "CompleteJob", "event": "TaskCompleted"}
    assert [task["name"] for task in tasks if done in task.get("policies", [])] == [ends.get(shape, "launcher")]
    must_end = shaped(target, shape, {"must_end": True})
    if shape.startswith("mirrored"):
        assert top(compiled(must_end, profile_for(target)))["spec"]["minSuccess"] == 4
    else:
        assert "no other is waited for" in message(must_end, profile_for(target))


@pytest.mark.parametrize(("target", "shape", "name"), [
    ("volcano-job", "mirrored", "evaluator"), ("volcano-job", "mirrored", "chief"), ("volcano-job", "servers", "chief"),
    ("train-job", "launcher alone", "launcher"), ("train-job", "ddp", "dataset-initializer"),
])
def test_names_that_the_operator_reads_are_taken(target: str, shape: str, name: str) -> None:
    (found,) = findings(shaped(target, shape, name=name), profile_for(target))
    assert (found.code, found.where.pointer) == ("TW327", f"/roles/{name}/pods")


@pytest.mark.parametrize("shape", ["servers", "servers, coordinator"])
@pytest.mark.parametrize(("name", "flags"), [("evaluator", ["--evaluator=_none"]), ("data-service", [])])
def test_volcano_keeps_an_evaluator_out_of_the_cluster(shape: str, name: str, flags: list[str]) -> None:
    """The chief would wait for it: TensorFlow connects to every task that TF_CONFIG lists."""
    result = compiled(shaped("volcano-job", shape, name=name), profile_for("volcano-job"))
    assert result.resolution.binding.roles[-1].name == name
    assert top(result)["spec"]["plugins"]["tensorflow"] == flags
    assert "_none" not in {task["name"] for task in top(result)["spec"]["tasks"]}


def test_beside_servers_a_tf_job_has_an_evaluator_only() -> None:
    assert "call the role evaluator" in message(
        on("tf-job", **command("a"), topology={"nodes": 1, "gpus_per_node": 0, **SHAPES["servers"]},
           roles={"cache": {"pods": 1, "image": IMAGE}}), profile_for("tf-job"),
    )  # fmt: skip


def test_pods_with_gpus_have_the_class_that_brings_them() -> None:
    roles = {"data-service": SERVICE, "evaluator": EVALUATOR}
    result = compiled(on("job-set", roles=roles, gang=False, runtime_class="nvidia"), profile_for("job-set"))
    classes = {pod.role: pod.spec.get("runtimeClassName") for pod in pods(result.manifests)}
    assert classes == {"node": "nvidia", "data-service": None, "evaluator": "nvidia"}


def test_what_must_end_must_end_in_time() -> None:
    roles = {"data-service": SERVICE, "evaluator": {**EVALUATOR, "must_end": True}}
    run = on("job-set", roles=roles, gang=False, deadline="2h", **command("torchrun", "a.py"))
    jobs = top(compiled(run, profile_for("job-set")))["spec"]["replicatedJobs"]
    times = {job["name"]: job["template"]["spec"].get("activeDeadlineSeconds") for job in jobs}
    assert times == {"data-service": None, "node": 7200, "evaluator": 7200}


@pytest.mark.parametrize(("target", "shape", "role"), [("ray-job", "ray", "head"), ("volcano-job", "servers", "ps")])
def test_pods_in_another_pool_have_its_environment(target: str, shape: str, role: str) -> None:
    of_ranks = {"env": {"LD_PRELOAD": "/tcpx/lib.so"}, "mounts": {"/tcpx": {"scratch": "1Gi"}}}
    pools = {"h100": {"pods": of_ranks, "fabric": {"interface": "eth7"}}, "cpu": {"pods": {"env": {"HTTP_PROXY": "proxy"}}}}
    run = overlay(shaped(target, shape), {"topology": {"gpus_per_node": 8}, "roles": {role: {"node_pool": "cpu"}}})
    result = compiled(run, overlay(profile_for(target), {"node_pools": pools}))
    told = {pod.role: pod.environment for pod in pods(result.manifests)}
    assert "LD_PRELOAD" in told["worker"] and "HTTP_PROXY" not in told["worker"]  # noqa: PT018 - one thing
    assert told[role]["HTTP_PROXY"] == "proxy"
    assert not {"LD_PRELOAD", "NCCL_SOCKET_IFNAME"} & told[role].keys()


def test_data_is_awaited_in_the_image_of_each_role() -> None:
    run = on("job-set", roles={"data-service": SERVICE}, gang=False)
    result = prepared(run, {"operators": INSTALLED})
    assert ["initContainers" in pod.spec for pod in pods(result.manifests)] == [False, False, True, True], "of the ranks"
    mounts = {path: mount.model_dump(exclude_unset=True) for path, mount in result.run.mounts.items()}
    there = prepared(run | {"roles": {"data-service": SERVICE | {"mounts": mounts}}}, {"operators": INSTALLED})
    images = {pod.role: pod.spec["initContainers"][0]["image"] for pod in pods(there.manifests)}
    assert images == {"node": result.run.image, "data-service": IMAGE}


def test_the_order_of_start_on_a_volcano_job(snapshot: SnapshotAssertion) -> None:
    tasks = top(with_roles("volcano-job", BOTH))["spec"]["tasks"]
    assert [{key: task[key] for key in task if key != "template"} for task in tasks] == snapshot


@pytest.mark.parametrize("target", IN_ORDER)
def test_a_gang_starts_all_at_once(target: str) -> None:
    gang = {"scheduling": {"gang": "volcano", "version": "1.15"}}
    run = on(target, roles=BOTH)
    assert [one for one in codes(run, {**profile_for(target), **gang}) if one != "TW430"][:2] == ["TW441", "TW441"]
    together = {name: {**role, "starts": "with"} for name, role in BOTH.items()}
    result = compiled(on(target, roles=together), {**profile_for(target), **gang})
    assert result.plan.gang is not None
    assert result.plan.gang.minimum == 5


def test_a_group_of_rays_workers() -> None:
    result = with_roles("ray-job", {"readers": {"pods": 3, "node_pool": "cpu", "resources": {"cpu": 8, "memory": "32Gi"}}})
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    groups = top(result)["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert [(group["groupName"], group["replicas"], group["rayStartParams"]) for group in groups] == [
        ("worker", 2, {"num-gpus": "8"}), ("readers", 3, {}),
    ]  # fmt: skip
    assert groups[1]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "8", "memory": "32Gi"}
    assert "command" not in groups[1]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("servers", [True, False])
def test_an_evaluator_of_tensorflow(servers: bool) -> None:
    evaluator = {"roles": {"evaluator": {"pods": 1, "command": ["python", "evaluate.py"]}}, **command("python", "train.py")}
    kind = {"kind": "parameter-server", "coordinator": True} if servers else {"kind": "multi-worker-mirrored"}
    run = on("tf-job", **evaluator, topology={**kind, "nodes": 2, "gpus_per_node": 0})
    if not servers:
        assert "an evaluator never joins them" in message(run, profile_for("tf-job"))
        return
    result = compiled(run, profile_for("tf-job"))
    specs = top(result)["spec"]["tfReplicaSpecs"]
    assert list(specs) == ["Chief", "Worker", "PS", "Evaluator"]
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    assert specs["Evaluator"]["template"]["spec"]["containers"][0]["name"] == "tensorflow"


@pytest.mark.parametrize("target", [name for name, case in CASES.items() if not case.further])
def test_other_targets_refuse_them_and_name_those_that_do_not(target: str) -> None:
    (found,) = findings(on(target, roles={"cache": {"pods": 1, "image": IMAGE}}, gang=False), profile_for(target))
    assert (found.code, found.where.pointer) == ("TW401", "/roles/cache")
    assert "with the further role cache: " in found.message


def test_a_job_proposes_targets_that_carry_them() -> None:
    assert "write target: job-set or train-job" in message({"roles": {"cache": {"pods": 1, "image": IMAGE}}})


@pytest.mark.parametrize(("roles", "code", "place", "words"), [
    ({"node": {"pods": 2}}, "TW327", "/roles/node/pods", "has the role node itself"),
    ({"node": {"node_pool": "cpu"}}, "TW329", "/roles/node/node_pool", "hold ranks"),
    ({"cache": {"pods": 1}}, "TW330", "/roles/cache", "nothing says what the pods of role cache run"),
    ({"cache": {"pods": 1, "image": IMAGE, "node_pool": "none"}}, "TW301", "/roles/cache/node_pool", "no node pool none"),
    ({"cache": {"pods": 1, "image": IMAGE, "node_pool": "cpu", "gpus": 1}}, "TW302", "/roles/cache/node_pool", "has 0 GPUs"),
    ({"cache": {"pods": 1, "image": IMAGE, "gpus": 9}}, "TW302", "/roles/cache/gpus", "9 GPUs on a node"),
    ({"cache": {"pods": 1, "image": IMAGE, "resources": {"memory": "9Ti"}}}, "TW308", "/roles/cache/resources/memory", "cpu"),
    ({"cache": {"pods": 1, "image": IMAGE, "gpus": 1, "resources": {"devices": {"nvidia.com/gpu": 1}}}}, "TW326",
     "/roles/cache/resources/devices/nvidia.com~1gpu", "roles.cache.gpus counts them"),
    ({"cache": {"pods": 1, "image": IMAGE, "resources": {"devices": {"nvidia.com/gpu": 1}}}}, "TW326",
     "/roles/cache/resources/devices/nvidia.com~1gpu", "another pool calls its GPUs"),
    ({"cache": {"pods": 1, "image": IMAGE, "resources": {"shared_memory": "64Gi"}}}, "TW308",
     "/roles/cache/resources/shared_memory", "counts against the memory of a pod of role cache, 8Gi"),
    ({"a-role-whose-name-says-all-that-it-does": {"pods": 1, "image": IMAGE}}, "TW402",
     "/roles/a-role-whose-name-says-all-that-it-does", "derives the name"),
    ({"cache": {"pods": 1, "image": "service:latest"}}, "TW305", "/roles/cache/image", "not pinned by digest"),
    ({"cache": {"pods": 1, "image": IMAGE, "env": {"API_KEY": "abcdefgh12345"}}}, "TW409", "/roles/cache/env/API_KEY", "secret"),
    ({"cache": {"pods": 1, "image": IMAGE, "security": {"privileged": True}}}, "TW604", "/roles/cache/security/privileged",
     "privileged"),
])  # fmt: skip
def test_what_they_cannot_be(roles: Data, code: str, place: str, words: str) -> None:
    found = findings({"target": "job-set", "roles": roles}, {"operators": {"jobset": {"version": "0.10.1"}}})[0]
    assert (found.code, found.where.pointer) == (code, place)
    assert words in found.message


SIDECAR: Data = {"name": "log", "kind": "sidecar", "image": IMAGE, "cpu": 1, "memory": "1Gi"}


@pytest.mark.parametrize(("pods_of_pool", "code", "place"), [
    ({"containers": [{**SIDECAR, "name": "data-service", "roles": ["data-service"]}]}, "TW601", "containers/0/name"),
    ({"containers": [{**SIDECAR, "roles": ["data-service"], "mounts": {"/x": {"same_as": "/x"}}}]}, "TW233",
     "containers/0/mounts/~1x"),
    ({"env": {"API_KEY": "abcdefgh12345"}}, "TW409", "env/API_KEY"),
    ({"mounts": {"/usr": {"scratch": "1Gi"}}}, "TW233", "mounts/~1usr"),
])  # fmt: skip
def test_what_their_pool_brings_is_held_to_the_rules(pods_of_pool: Data, code: str, place: str) -> None:
    cluster = overlay(profile_for("job-set"), {"node_pools": {"cpu": {"pods": pods_of_pool}}})
    found = findings(on("job-set", roles={"data-service": SERVICE}, gang=False), cluster)
    assert [(one.code, one.where.pointer) for one in found] == [(code, f"/node_pools/cpu/pods/{place}")]
    assert findings(on("job-set"), cluster) == []


def test_a_restricted_namespace_wants_their_user() -> None:
    run = {"target": "job-set", "roles": {"cache": {"pods": 1, "image": IMAGE}}}
    cluster: Data = {**profile_for("job-set"), "namespaces": {"training": {"pod_security": "restricted", "security": None}}}
    (found,) = findings(run, cluster)
    assert (found.code, found.where.pointer) == ("TW317", "/roles/cache/security")
    stated = compiled(overlay(run, {"roles": {"cache": {"security": {"user": 999}}}}), cluster)
    contexts = {pod.role: pod.spec["securityContext"]["runAsUser"] for pod in pods(stated.manifests)}
    assert contexts == {"node": 1000, "cache": 999}


@pytest.mark.parametrize(("roles", "words"), [
    ({"launcher": {"gpus": 1}}, "gpus is for a further role, and this one has no pods"),
    ({"cache": {"pods": 0}}, "must be at least 1"),
    ({f"role-{number}": {"pods": 1} for number in range(7)}, "there are 7 further roles, and a run has 6 at most"),
])  # fmt: skip
def test_what_no_run_can_state(roles: Data, words: str) -> None:
    with pytest.raises(CompileError) as caught:
        validate_data(Run, overlay(RUN, {"roles": roles}), None, {})
    assert words in caught.value.findings[0].message


def test_the_plan_says_where_they_are_and_when_they_start() -> None:
    rows = dict(plan_rows(with_roles("job-set", BOTH)))
    assert rows["further roles"] == (
        "data-service: 2 pods of 2 CPU, 8Gi memory in pool cpu, ready before the ranks start; "
        "evaluator: 1 pod of 1 GPU, 21 CPU, 225Gi memory in pool h100, starts when the ranks are ready"
    )


def test_pods_that_do_not_talk_have_none() -> None:
    run = {"topology": {"kind": "independent", "nodes": 2, "gpus_per_node": 1}, "target": "job-set", **command("a"),
           "roles": {"cache": {"pods": 1, "image": IMAGE}}}  # fmt: skip
    assert "independent pods have no network" in message(run)


def test_an_edit_of_one_is_a_new_run_and_a_run_without_any_keeps_its_name() -> None:
    more = {**BOTH, "evaluator": {**EVALUATOR, "pods": 2}}
    assert with_roles("job-set", BOTH).plan.name != with_roles("job-set", more).plan.name
    assert with_roles("job-set", {}).plan.name == compiled(on("job-set", gang=False), profile_for("job-set")).plan.name


def test_runtimes_say_nothing_of_one_run() -> None:
    """Variables with the names of pods are in the TrainJob, so that runs of one shape share the runtime."""
    both = [with_roles("train-job", BOTH, run=run).manifests for run in ("first", "second")]
    first, second = (next(one for one in manifests if one["kind"] == "TrainingRuntime") for manifests in both)
    assert first == second


@pytest.mark.parametrize(("pool", "nodes", "roles", "said"), [
    ("h100", 3, {"evaluator": {**EVALUATOR, "gpus": 8}}, []),
    ("h100", 2, {"evaluator": {**EVALUATOR, "gpus": 8}}, ["the pods of all roles need 3 nodes of pool h100, which has 2"]),
    ("cpu", 2, {"data-service": {**SERVICE, "pods": 50, "resources": {"cpu": 6, "memory": "1Gi"}}},
     ["the pods of all roles need 5 nodes of pool cpu, which has 2"]),
])  # fmt: skip
def test_a_pool_has_nodes_for_all_roles(pool: str, nodes: int, roles: Data, said: list[str]) -> None:
    run = on("job-set", roles=roles, gang=False, topology={"kind": "ddp", "nodes": 2, "gpus_per_node": 8})
    found = findings(run, overlay(profile_for("job-set"), {"node_pools": {pool: {"nodes": nodes}}}))
    assert [one.message for one in found if one.code == "TW309"] == said


def test_a_sidecar_shares_the_address_of_its_own_pod_alone() -> None:
    sidecar = {**SIDECAR, "roles": ["node"]}
    listens = {"kind": "sidecar", "roles": ["node"], "container": {
        "name": "log", "image": IMAGE, "ports": [{"containerPort": 9000}],
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
    }}  # fmt: skip
    for container in (sidecar, listens):
        assert findings(on("job-set", roles={"data-service": SERVICE}, gang=False, containers=[container]),
                        overlay(profile_for("job-set"), {"namespaces": {"training": {"pod_security": "privileged"}}})) == []


@pytest.mark.parametrize(("patch", "fix"), [
    ({"containers": [{"name": "evaluator", "command": ["other"]}]}, "change roles.evaluator"),
    ({"containers": [{"name": "evaluator", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}, "change roles.evaluator.gpus"),
])
def test_what_the_plan_owns_of_their_pods_is_changed_under_roles(patch: Data, fix: str) -> None:
    run = on("job-set", roles=BOTH, gang=False, overrides={"pod": {"evaluator": patch}})
    assert findings(run, profile_for("job-set"))[0].fix == fix


def test_overrides_reach_their_pods() -> None:
    run = on("job-set", roles=BOTH, overrides={"pod": {"evaluator": {"priorityClassName": "low"}}})
    result = compiled(run, profile_for("job-set"))
    assert {pod.role: pod.spec.get("priorityClassName") for pod in pods(result.manifests)}["evaluator"] == "low"
    refused = on("job-set", roles=BOTH, overrides={"pod": {"evaluator": {"restartPolicy": "Always"}}})
    assert codes(refused, profile_for("job-set")) == ["TW601"]


