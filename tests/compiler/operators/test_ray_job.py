"""RayJob: what it binds, what it emits, and how its entrypoint survives two shells."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from tests.compiler.controllers import pods
from tests.compiler.example import EVERY_TARGET, codes, command, compiled, findings, message, script
from tests.compiler.findings.page import overlay
from tests.compiler.objects import lines_without_answer, needs_crds, problems_of, the, variables, written
from tests.compiler.targets import on, profile_for

from trainwright.compile import CompiledRun
from trainwright.findings.locate import at
from trainwright.handshake import Binding, Elastic, Needs, Refusal, Rendezvous, Success
from trainwright.operators.kuberay.cluster import HEAD_POD, SUBMITTER, group_at, ray_version
from trainwright.operators.kuberay.emit import RayJob
from trainwright.rendezvous.ray import RayPods
from trainwright.report.plan import plan_rows

Data = dict[str, Any]

PROFILE: Data = {"operators": {"kuberay": {"version": "1.7.0"}}}
RAY: Data = {"target": "ray-job", "topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 8, "version": "2.52.0"}}
TRAINER: Data = {**RAY}
COMMAND: Data = {**command("python", "/app/train.py", "--lr", "2e-5"), **RAY}
NEEDS = Needs(
    nodes=4,
    processes_per_node=8,
    gpus_per_node=8,
    rendezvous=Rendezvous.RAY_HEAD,
    success=Success.LAUNCHER,
)
CASES: dict[str, tuple[Data, Data]] = {
    "trainer": (TRAINER, {}),
    "command": (COMMAND, {}),
    "cpu": ({**COMMAND, "topology": {"kind": "ray", "nodes": 1, "gpus_per_node": 0, "version": "2.52.0"}}, {}),
    "mounts": ({**COMMAND, "mounts": {"/data": {"claim": "dataset", "read_only": True}}, "files": {"/app/a.json": {"a": 1}}}, {}),
    "autoscaled": (
        {**COMMAND, "topology": {**RAY["topology"], "autoscaling": {"worker": {"min_nodes": 1, "max_nodes": 5}}}}, {},
    ),
    "runtime environment": (
        {**COMMAND, "topology": {**RAY["topology"], "runtime_env": {"pip": ["a==1"], "env_vars": {"MODE": "fast"}}}}, {},
    ),
    "ports": ({**COMMAND, "roles": {"head": {"ports": {"mine": 9000}}}}, {}),
    "account": ({**COMMAND, "service_account": "reader", "image_pull_secrets": ["registry"]}, {}),
    "gang": (
        {**COMMAND, "queue": "research"},
        {"scheduling": {"gang": "volcano", "version": "1.15"}, "operators": {"kuberay": {"gang_scheduler": "volcano"}}},
    ),
}


def ray(run: Data | None = None, cluster: Data | None = None) -> CompiledRun:
    return compiled({**TRAINER, **(run or {})}, overlay(PROFILE, cluster or {}))


def job(run: Data | None = None, cluster: Data | None = None) -> Data:
    return the(ray(run, cluster), "RayJob")


# What it binds


def test_it_binds_a_head_and_workers() -> None:
    binding = RayJob().bind(NEEDS, EVERY_TARGET)
    assert isinstance(binding, Binding)
    head, worker = binding.roles
    assert (head.pods, head.holds_ranks, worker.pods, worker.holds_ranks) == (1, False, 4, True)
    assert binding.replaces_command
    assert binding.part(RayPods) == RayPods()
    assert binding.fixed_port
    assert {"RAY_ADDRESS", "RAY_PORT", "KUBERAY_GEN_RAY_START_CMD"} < binding.injects.keys()


@pytest.mark.parametrize("kind", [kind for kind in Rendezvous if kind not in (Rendezvous.RAY_HEAD, Rendezvous.NONE)])
def test_it_refuses_every_other_rendezvous(kind: Rendezvous) -> None:
    refusal = RayJob().bind(NEEDS._replace(rendezvous=kind), EVERY_TARGET)
    assert isinstance(refusal, Refusal)
    assert kind.value in refusal.reason


def test_it_refuses_a_size_that_changes() -> None:
    refusal = RayJob().bind(NEEDS._replace(elastic=Elastic(1, 4)), EVERY_TARGET)
    assert isinstance(refusal, Refusal)
    assert "autoscaler" in refusal.reason


# What it emits


def test_the_yaml(snapshot: SnapshotAssertion) -> None:
    result = ray({"topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 1, "version": "2.52.0"}, "node_pool": "spot"})
    assert written([the(result, "RayJob")]).replace(result.identity, "IDENTITY") == snapshot


def test_the_operators_defaults_that_are_traps_are_written() -> None:
    spec = job({"restarts": 5})["spec"]
    assert spec["shutdownAfterJobFinishes"] is True
    assert (spec["backoffLimit"], spec["submissionMode"], spec["submitterConfig"]) == (5, "K8sJobMode", {"backoffLimit": 3})
    assert "clusterSelector" not in spec
    cluster = spec["rayClusterSpec"]
    assert (cluster["rayVersion"], cluster["enableInTreeAutoscaling"]) == ("2.52.0", False)
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0", "num-gpus": "0", "dashboard-host": "0.0.0.0"}
    (group,) = cluster["workerGroupSpecs"]
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 2
    assert group["rayStartParams"] == {"num-gpus": "8"}


def test_gpus_are_in_the_limits_of_the_workers_and_not_in_the_heads() -> None:
    manifest = job()
    worker, head = (at(manifest, f"{pod}/spec/containers/0/resources/limits") for pod in (group_at(0), HEAD_POD))
    assert worker["nvidia.com/gpu"] == "8"
    assert head == {"cpu": "4", "memory": "16Gi"}


def test_threads_are_of_the_pod_that_they_run_in() -> None:
    def threads(manifest: Data, pod: str) -> list[str]:
        return [entry["value"] for entry in at(manifest, f"{pod}/spec/containers/0/env") if entry["name"] == "OMP_NUM_THREADS"]

    (of_head, of_worker) = (threads(job(), pod) for pod in (HEAD_POD, group_at(0)))
    assert of_head == ["4"], "the head's CPUs"
    assert of_worker == ["21"], "172 CPUs for 8 ranks"
    stated = job({"env": {"OMP_NUM_THREADS": "2"}})
    assert threads(stated, HEAD_POD) == threads(stated, group_at(0)) == ["2"]


def test_the_operator_starts_ray_and_mounts_shared_memory() -> None:
    """A command of ours would be started after ``ray start``, and a second /dev/shm would be refused."""
    for run in (TRAINER, COMMAND):
        manifest = job(run)
        for pod in (HEAD_POD, group_at(0)):
            spec = at(manifest, f"{pod}/spec")
            container = spec["containers"][0]
            assert not {"command", "args", "livenessProbe", "readinessProbe", "ports"} & container.keys()
            assert "/dev/shm" not in [mount["mountPath"] for mount in container["volumeMounts"]]
            assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]], "Ray writes to /tmp/ray"
            assert "shm" not in [volume["name"] for volume in spec["volumes"]]


LOST_NODE = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def test_the_submitter_has_a_place_where_every_pool_is_tainted() -> None:
    """Otherwise it is Pending for as long as the cluster holds its GPUs."""
    taints = [{"key": "nvidia.com/gpu"}, {"key": "team", "value": "vision", "effect": "NoExecute"}]
    manifest = job(cluster={"node_pools": {"h100": {"taints": taints}}})
    tolerations = at(manifest, f"{SUBMITTER}/spec/tolerations")
    assert tolerations == at(manifest, f"{group_at(0)}/spec/tolerations")
    assert [toleration["key"] for toleration in tolerations] == ["nvidia.com/gpu", "team", *LOST_NODE]
    assert at(manifest, f"{SUBMITTER}/spec/nodeSelector") is None
    untainted = at(job(cluster={"node_pools": {"h100": {"taints": []}}}), f"{SUBMITTER}/spec/tolerations")
    assert [toleration["key"] for toleration in untainted] == LOST_NODE


def test_the_submitter_is_as_strict_as_the_rest_and_takes_no_gpu() -> None:
    manifest = job({"node_pool": "spot", "image_pull_secrets": ["registry"]})
    spec = at(manifest, f"{SUBMITTER}/spec")
    for field in ("securityContext", "imagePullSecrets", "enableServiceLinks"):
        assert spec[field] == at(manifest, f"{HEAD_POD}/spec/{field}")
    (container,) = spec["containers"]
    assert "command" not in container
    assert container["securityContext"] == at(manifest, f"{HEAD_POD}/spec/containers/0/securityContext")
    assert container["resources"]["requests"] == container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert "nodeSelector" not in spec


def test_the_driver_of_our_trainer_is_a_command_of_it() -> None:
    assert job()["spec"]["entrypoint"] == "trainwright-trainer ray"
    assert "TRAINWRIGHT_SPEC" in [entry["name"] for entry in at(job(), f"{HEAD_POD}/spec/containers/0/env")]


def test_the_plan_promises_no_more_than_ray_keeps() -> None:
    assert ray().plan.guarantees == ("restart of all ranks together", "exact resume", "resume at another size")


def test_a_gang_is_a_label_that_the_operator_reads() -> None:
    result = ray(*CASES["gang"])
    labels = the(result, "RayJob")["metadata"]["labels"]
    assert labels["ray.io/gang-scheduling-enabled"] == "true"
    assert labels["volcano.sh/queue-name"] == "research"
    assert at(the(result, "RayJob"), f"{group_at(0)}/spec/schedulerName") == "volcano"


@pytest.mark.parametrize(("run", "cluster"), CASES.values(), ids=CASES)
def test_no_variable_of_the_operator_is_set(run: Data, cluster: Data) -> None:
    result = ray(run, cluster)
    assert not {*variables(list(result.manifests))} & result.resolution.binding.injects.keys()


def test_nothing_suspends_it_or_deletes_it() -> None:
    text = json.dumps(ray().manifests)
    for word in ("suspend", "ttlSecondsAfterFinished", "generateName", "deletionStrategy"):
        assert f'"{word}"' not in text


@pytest.mark.parametrize(("run", "cluster"), CASES.values(), ids=CASES)
def test_every_line_has_an_answer(run: Data, cluster: Data) -> None:
    assert lines_without_answer(ray(run, cluster)) == []


@needs_crds
@pytest.mark.parametrize(("run", "cluster"), CASES.values(), ids=CASES)
def test_its_objects_are_valid(run: Data, cluster: Data) -> None:
    assert problems_of(ray(run, cluster)) == []


# The entrypoint

WORDS = st.lists(st.from_regex(r"[A-Za-z0-9@%+=:,./_ -]+", fullmatch=True), min_size=1, max_size=5)


@given(WORDS)
def test_a_command_arrives_as_it_was_asked_for(words: list[str]) -> None:
    """The submitter's shell, Ray's quoting before and after ray-project/ray#63797, and the head's shell."""
    submitted = shlex.split(shlex.join(words))
    for quote in (subprocess.list2cmdline, shlex.join):
        assert shlex.split(quote(submitted)) == words


@pytest.mark.parametrize("quote", [subprocess.list2cmdline, shlex.join])
def test_real_shells_agree(quote: Any) -> None:
    words = ["printf", "%s,", "a b", "--x=1,2", "-y", "c  d", "/app/e.f"]
    entrypoint = job({**command(*words), **RAY})["spec"]["entrypoint"]
    first = subprocess.run(["bash", "-c", f"printf '%s\\0' {entrypoint}"], capture_output=True, check=True, text=True)
    second = subprocess.run(["sh", "-c", quote(first.stdout.split("\0")[:-1])], capture_output=True, check=True, text=True)
    assert second.stdout == "a b,--x=1,2,-y,c  d,/app/e.f,"


@pytest.mark.parametrize("word", ["$HOME", "a;b", "{}", '{"a": 1}', "a'b", "~", "*", "#a", "a|b", "`a`", "a\\b", "a\nb", "ä"])
def test_a_word_that_shells_read_is_found(word: str) -> None:
    said = message({**command("python", word), **RAY}, PROFILE)
    assert said.startswith(f"/workload/command/1: `{word}` holds a character that a shell reads")


# Findings


def test_a_job_without_a_driver_is_refused() -> None:
    work = {"workload": {"kind": "command", "args": []}, "batch": None, "learning_rate": None}
    said = message({**work, **RAY}, PROFILE)
    assert said.startswith("/workload: Ray replaces the entrypoint of every pod, so without a command its job has nothing to run")


def test_the_driver_of_a_script_is_our_supervisor() -> None:
    run = {**script("/app/train.sh"), **RAY, "supervisor": "image"}
    assert at(job(run), "/spec/entrypoint") == "trainwright-trainer ray"
    assert "TW424" not in codes(run, PROFILE)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("rayproject/ray:2.52.0", "2.52.0"),
        ("rayproject/ray:2.52.0-py312-gpu", "2.52.0"),
        ("registry.example.com:5000/mirror/ray-ml:2.9.3-gpu@sha256:" + "0" * 64, "2.9.3"),
        ("ray:2.52.0", "2.52.0"),
        ("rayproject/ray-ml:2.46.0.0e19ea-py311-gpu", "2.46.0"),
        ("rayproject/ray-llm:2.46.0.0e19ea-py311-cu124", "2.46.0"),
        ("anyscale/ray:2.44.1-slim-py312-cu128", "2.44.1"),
        ("rayproject/ray:2.9.0.3", None),
        ("rayproject/ray:3.0.0.dev0", None),
        ("rayproject/ray:latest", None),
        ("rayproject/ray:2.52", None),
        ("rayproject/ray@sha256:" + "0" * 64, None),
        ("registry.example.com/trainer:0.1.0", None),
        ("registry.example.com/array:2.52.0", None),
        ("registry.example.com/ray/trainer:0.1.0", None),
    ],
)
def test_the_release_of_ray_is_read_from_an_image_of_rays_own(image: str, version: str | None) -> None:
    found = ray_version(image, None)
    assert (found.value if found else None) == version


def test_what_the_run_states_wins() -> None:
    stated = ray_version("registry.example.com/trainer:0.1.0", "2.52.0")
    assert stated is not None
    assert (stated.value, stated.source) == ("2.52.0", "run:/topology/version")


def test_the_release_of_ray_must_be_known_and_one() -> None:
    unknown: Data = {**RAY, "topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 8}}
    assert codes(unknown, PROFILE) == ["TW426"]
    tagged = {**unknown, "image": "registry.example.com/ray:2.52.0"}
    assert codes(tagged, PROFILE) == ["TW305"]
    assert codes({**TRAINER, "image": "registry.example.com/ray:2.52.0"}, PROFILE) == ["TW305"]
    assert "TW426" in codes({**TRAINER, "image": "registry.example.com/ray:2.51.0"}, PROFILE)


def test_a_name_that_the_operator_does_not_take_is_found() -> None:
    longest = RayJob.longest_name - len("-00000000")
    assert len(ray({"run": "n" * longest}).plan.name) == RayJob.longest_name
    assert codes({**TRAINER, "run": "n" * (longest + 1)}, PROFILE) == ["TW402"]


@pytest.mark.parametrize("name", ["RAY_ADDRESS", "RAY_REDIS_ADDRESS", "RAY_enable_autoscaler_v2"])
def test_a_variable_of_the_operator_is_refused(name: str) -> None:
    assert codes({**TRAINER, "env": {name: "1"}}, PROFILE) == ["TW403"]


# Overrides


def override(*, pod: Data | None = None, patch: Data | None = None) -> Data:
    if pod is not None:
        return {"overrides": {"pod": pod}}
    return {"overrides": {"objects": [{"target": "ray-job", "kind": "RayJob", "patch": patch}]}}


def test_a_harmless_override_reaches_its_role() -> None:
    manifest = job(override(pod={"worker": {"priorityClassName": "high"}}))
    assert at(manifest, f"{group_at(0)}/spec/priorityClassName") == "high"
    assert at(manifest, f"{HEAD_POD}/spec/priorityClassName") is None
    assert job(override(patch={"spec": {"activeDeadlineSeconds": 3600}}))["spec"]["activeDeadlineSeconds"] == 3600


@pytest.mark.parametrize(
    "run",
    [
        override(patch={"spec": {"suspend": True}}),
        override(patch={"spec": {"shutdownAfterJobFinishes": False}}),
        override(patch={"spec": {"ttlSecondsAfterFinished": 60}}),
        override(patch={"spec": {"entrypoint": "sleep 1"}}),
        override(patch={"spec": {"runtimeEnvYAML": "pip: [a]"}}),
        override(patch={"spec": {"backoffLimit": 9}}),
        override(patch={"spec": {"submitterConfig": {"backoffLimit": 9}}}),
        override(patch={"spec": {"submitterPodTemplate": {"spec": {"nodeName": "a"}}}}),
        override(patch={"spec": {"clusterSelector": {"ray.io/cluster": "a"}}}),
        override(patch={"spec": {"rayClusterSpec": {"enableInTreeAutoscaling": True}}}),
        override(patch={"spec": {"rayClusterSpec": {"rayVersion": "2.9.0"}}}),
        override(patch={"spec": {"rayClusterSpec": {"headGroupSpec": {"rayStartParams": {"num-cpus": "4"}}}}}),
        override(patch={"spec": {"rayClusterSpec": {"workerGroupSpecs": []}}}),
        override(pod={"worker": {"restartPolicy": "Always"}}),
        override(pod={"head": {"containers": [{"name": "ray-head", "command": ["sleep"]}]}}),
        override(pod={"worker": {"containers": [{"name": "ray-worker", "env": [{"name": "RAY_ADDRESS", "value": "a"}]}]}}),
    ],
    ids=lambda run: json.dumps(run["overrides"])[:90],
)
def test_what_the_plan_owns_stays(run: Data) -> None:
    assert codes({**TRAINER, **run}, PROFILE) == ["TW601"]


# What it says


def shm(manifest: Data, pod: str) -> tuple[Any, Any]:
    """The size of /dev/shm, and whether the container of Ray mounts it."""
    volumes, mounts = (at(manifest, f"{pod}/spec/{key}") or [] for key in ("volumes", "containers/0/volumeMounts"))
    sizes = [one["emptyDir"]["sizeLimit"] for one in volumes if one["name"] == "shm"]
    return sizes, [one["name"] for one in mounts if one["mountPath"] == "/dev/shm"]


def test_shared_memory_is_the_operator_s_own_unless_the_run_states_it() -> None:
    """The operator keeps what a pod template mounts there (addEmptyDir in common/pod.go)."""
    assert "shared memory as kuberay mounts it" in dict(plan_rows(ray()))["pod"]
    assert [shm(job(), pod) for pod in (HEAD_POD, group_at(0))] == [([], [])] * 2
    of_all = {"resources": {"shared_memory": "64Gi"}}
    assert "shared memory 64Gi" in dict(plan_rows(ray(of_all)))["pod"]
    assert [shm(job(of_all), pod) for pod in (HEAD_POD, group_at(0))] == [([], []), (["64Gi"], ["shm"])]
    of_head = {"roles": {"head": {"resources": {"shared_memory": "2Gi"}}}}
    assert [shm(job(of_head), pod) for pod in (HEAD_POD, group_at(0))] == [(["2Gi"], ["shm"]), ([], [])]
    for run in (of_all, of_head):
        assert codes({**TRAINER, **run}, PROFILE) == []
        assert lines_without_answer(ray(run)) == []


# A head that is a node, and what Ray is started with


def with_head(nodes: int, gpus: int = 8, **run: Any) -> Data:
    return {**COMMAND, "topology": {**RAY["topology"], "nodes": nodes, "gpus_per_node": gpus, "head_is_node": True}, **run}


@needs_crds
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 8), (1, 1), (1, 0), (2, 8), (5, 4)])
def test_a_head_may_be_a_node(nodes: int, gpus: int) -> None:
    result = ray(with_head(nodes, gpus))
    cluster = the(result, "RayJob")["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-gpus": str(gpus), "dashboard-host": "0.0.0.0"}
    limits = at(the(result, "RayJob"), f"{HEAD_POD}/spec/containers/0/resources/limits")
    assert limits.get("nvidia.com/gpu") == (str(gpus) if gpus else None)
    assert [group["replicas"] for group in cluster.get("workerGroupSpecs", [])] == ([nodes - 1] if nodes > 1 else [])
    assert result.resolution.gpus == nodes * gpus
    assert (problems_of(result), lines_without_answer(result)) == ([], [])


def test_beside_a_head_alone_workers_are_a_further_role() -> None:
    """With a number of GPUs of their own, or none."""
    result = ray(with_head(1, 1, roles={"worker": {"pods": 4, "gpus": 8}, "readers": {"pods": 2}}))
    cluster = the(result, "RayJob")["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"]["num-gpus"] == "1"
    groups = [(group["groupName"], group["replicas"], group["rayStartParams"]) for group in cluster["workerGroupSpecs"]]
    assert groups == [("worker", 4, {"num-gpus": "8"}), ("readers", 2, {})]
    assert (result.resolution.gpus, lines_without_answer(result)) == (33, [])


def test_a_head_that_is_a_node_is_for_a_program_of_the_run() -> None:
    assert codes({**TRAINER, "topology": with_head(2)["topology"]}, PROFILE) == ["TW458"]


@pytest.mark.parametrize(("run", "code"), [
    ({"roles": {"head": {"resources": {"devices": {"nvidia.com/gpu": 1}}}}}, "TW326"),
    (override(pod={"head": {"containers": [{"name": "ray-head", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}), "TW601"),
    (override(patch={"spec": {"rayClusterSpec": {"headGroupSpec": {"rayStartParams": {"num-gpus": "1"}}}}}), "TW601"),
    (override(patch={"spec": {"rayClusterSpec": {"workerGroupSpecs": []}}}), "TW601"),
])  # fmt: skip
def test_who_wants_a_head_with_gpus_is_told_the_key_that_there_is(run: Data, code: str) -> None:
    (finding,) = [one for one in findings({**COMMAND, **run}, PROFILE) if one.severity.value == "error"]
    assert (finding.code, "topology.head_is_node" in str(finding.fix)) == (code, True)


def test_ray_is_started_with_what_the_run_states() -> None:
    stated = {"head": {"num-cpus": "4", "object-store-memory": "1000000000"}, "worker": {"resources": "'\"{\\\"a\\\": 1}\"'"}}
    result = ray({**COMMAND, "topology": {**RAY["topology"], "start_params": stated}})
    cluster = the(result, "RayJob")["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"] == {
        "num-cpus": "4", "num-gpus": "0", "dashboard-host": "0.0.0.0", "object-store-memory": "1000000000",
    }  # fmt: skip
    assert cluster["workerGroupSpecs"][0]["rayStartParams"] == {"num-gpus": "8", **stated["worker"]}
    assert lines_without_answer(result) == []
    assert ray({**COMMAND}).identity == ray({**COMMAND, "topology": {**RAY["topology"], "start_params": {}}}).identity


@pytest.mark.parametrize(("work", "stated", "code", "words"), [
    (COMMAND, {"head": {"num-gpus": "1"}}, "TW458", "topology.gpus_per_node counts GPUs"),
    (COMMAND, {"worker": {"address": "10.0.0.1"}}, "TW458", "the operator sets it"),
    (COMMAND, {"workers": {"memory": "1"}}, "TW327", "no role workers"),
    (TRAINER, {"head": {"num-cpus": "4"}}, "TW458", "on the head"),
])  # fmt: skip
def test_what_starts_a_cluster_is_the_operators(work: Data, stated: Data, code: str, words: str) -> None:
    said = findings({**work, "topology": {**RAY["topology"], "start_params": stated}}, PROFILE)
    (finding,) = [one for one in said if one.severity.value == "error"]
    assert (finding.code, words in finding.message) == (code, True)
    assert finding.where.pointer.startswith("/topology/start_params/")


def test_a_hook_and_the_nodes_network_reach_the_pods_of_ray() -> None:
    """The kubelet reads both, whoever made the command."""
    open_level: Data = {"namespaces": {"training": {"pod_security": "privileged"}}}
    run = {**COMMAND, "pre_stop": {"command": ["ray", "stop"]}, "host_network": True}
    assert not [one for one in findings(run, overlay(PROFILE, open_level)) if one.severity.value == "error"]
    manifest = job(run, open_level)
    for pod in (HEAD_POD, group_at(0)):
        assert at(manifest, f"{pod}/spec/containers/0/lifecycle") == {"preStop": {"exec": {"command": ["ray", "stop"]}}}
        assert at(manifest, f"{pod}/spec/hostNetwork") is True
    further = job({**run, "roles": {"readers": {"pods": 1}}}, open_level)
    assert at(further, f"{group_at(1)}/spec/containers/0/lifecycle") is None


@pytest.mark.parametrize("run", [TRAINER, COMMAND], ids=["trainer", "command"])
def test_nothing_of_ours_is_there_to_watch(run: Data) -> None:
    (note,) = findings(run, overlay(PROFILE, {"monitoring": {"kind": "prometheus-operator"}}))
    assert note.code == "TW320"
    assert "the operator starts its own program in the pods" in note.message
    assert "script" not in note.fix, "which is watched no better there"


# Ports of the head


def test_ports_of_the_head_do_not_take_the_place_of_rays_own() -> None:
    """The operator's Service of the head has the ports of its container, and only without any Ray's own."""
    ports = at(job({**COMMAND, "roles": {"head": {"ports": {"metrics-of-mine": 9000, "dashboard": 8265}}}}), HEAD_POD)
    served = {port["name"]: port["containerPort"] for port in ports["spec"]["containers"][0]["ports"]}
    assert served == {"metrics-of-mine": 9000, "dashboard": 8265, "client": 10001, "gcs-server": 6379}


@pytest.mark.parametrize(("role", "ports"), [
    ("head", {"dashboard": 9000}), ("head", {"mine": 6379}), ("head", {"mine": 8080}), ("worker", {"mine": 8080}),
])
def test_ray_has_its_ports_by_name(role: str, ports: Data) -> None:
    assert codes({**COMMAND, "roles": {role: {"ports": ports}}}, PROFILE) == ["TW460"]


def test_a_group_with_ports_has_the_operators_probes() -> None:
    readers = {"pods": 1, "ports": {"mine": 9000}, "starts": "with", "must_end": False}
    groups = job({**COMMAND, "roles": {"readers": readers}})["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    container = groups[1]["template"]["spec"]["containers"][0]
    assert container["ports"]
    assert "readinessProbe" not in container


@pytest.mark.parametrize(("gpus", "parts", "said"), [
    (8, {"gpus": 4}, "on the GPUs of role readers"), (0, {}, "on the CPUs of role readers"), (8, {}, None),
])
def test_ranks_of_our_trainer_stay_where_their_specification_is(gpus: int, parts: Data, said: str | None) -> None:
    run = {**TRAINER, "topology": {**RAY["topology"], "gpus_per_node": gpus}, "roles": {"readers": {"pods": 1, **parts}}}
    found = [one.message for one in findings(run, PROFILE) if one.code == "TW458"]
    assert [said in one for one in found if said] == ([True] if said else [])
    assert len(found) == (said is not None)


@pytest.mark.parametrize(("env", "expected"), [
    ({"RAY_ADDRESS": "a"}, ["TW403"]), ({"NCCL_TREE_THRESHOLD": "0"}, ["TW407"]),
    ({"TRAINWRIGHT_CHECKPOINT_DIRECTORY": "/a"}, ["TW403"]), ({"OMP_NUM_THREADS": "2"}, []),
])
def test_variables_of_the_runtime_environment_are_held_to_the_rules_of_the_runs_own(env: Data, expected: list[str]) -> None:
    assert codes({**COMMAND, "topology": {**RAY["topology"], "runtime_env": {"env_vars": env}}}, PROFILE) == expected


@pytest.mark.parametrize(("stated", "expected"), [
    ({"NUM_WORKERS": 2}, ["env_vars.NUM_WORKERS` must be text, not 2; write \"2\" in quotes"]),
    ({"A": True}, ["env_vars.A` must be text, not true; write \"true\" in quotes"]),
    ({"A": 1.3}, ["env_vars.A` must be text, not 1.3; write \"1.3\" in quotes, or \"1.30\" if that was meant"]),
    ({"RANK": 3, "NCCL_TREE_THRESHOLD": 1}, [
        "env_vars.RANK` must be text, not 3; write \"3\" in quotes",
        "env_vars.NCCL_TREE_THRESHOLD` must be text, not 1; write \"1\" in quotes",
    ]),
    ({"A": ["b"]}, ["env_vars.A` must be text; write text, or remove it"]),
    ({"A": None}, ["env_vars.A` must be text; write text, or remove it"]),
    (["A=b"], ["env_vars` must be a mapping; write a mapping: `env_vars: {NAME: value}`"]),
    ({"A": "2"}, []),
])  # fmt: skip
def test_variables_of_the_runtime_environment_are_texts(stated: Any, expected: list[str]) -> None:
    run = {**COMMAND, "topology": {**RAY["topology"], "runtime_env": {"env_vars": stated}}}
    said = [f"{one.code}: {one.message}; {one.fix}" for one in findings(run, PROFILE)]
    assert said == [f"TW107: `topology.runtime_env.{words}" for words in expected]


@pytest.mark.parametrize(("stated", "meant"), [
    ({"pips": ["a==1"], "env_var": {"A": "b"}}, {"pips": "pip", "env_var": "env_vars"}),
    ({"workingDir": "a"}, {"workingDir": "working_dir"}),
    ({"my_pip": ["a"], "config": {}, "_nsight": {}}, {}),  # a plugin's key, and Ray's own
])  # fmt: skip
def test_a_misspelt_key_of_the_runtime_environment_is_found(stated: Data, meant: dict[str, str]) -> None:
    run = {**COMMAND, "topology": {**RAY["topology"], "runtime_env": stated}}
    said = [f"{one.code}: {one.message}; {one.fix}" for one in findings(run, PROFILE)]
    assert said == [
        f"TW105: Ray knows no `{key}` in topology.runtime_env; did you mean `{near}`?" for key, near in meant.items()
    ]


# Autoscaling, and what Ray brings to the pods


def scaled(low: int, high: int, **run: Any) -> Data:
    return {**COMMAND, "topology": {**RAY["topology"], "autoscaling": {"worker": {"min_nodes": low, "max_nodes": high}}}, **run}


def test_an_autoscaler_has_bounds_and_rights_of_its_own(snapshot: SnapshotAssertion) -> None:
    restricted: Data = {"namespaces": {"training": {"pod_security": "restricted", "security": {"user": 1000}}}}
    result = ray(scaled(1, 5), restricted)
    cluster = the(result, "RayJob")["spec"]["rayClusterSpec"]
    (group,) = cluster["workerGroupSpecs"]
    numbers = {key: group[key] for key in ("replicas", "minReplicas", "maxReplicas")}
    assert numbers == {"replicas": 2, "minReplicas": 1, "maxReplicas": 5}
    assert {key: cluster[key] for key in ("enableInTreeAutoscaling", "autoscalerOptions")} == snapshot
    tokens = [at(the(result, "RayJob"), f"{pod}/spec/automountServiceAccountToken") for pod in (HEAD_POD, group_at(0), SUBMITTER)]
    assert tokens == [True, False, False]
    assert dict(plan_rows(result))["autoscaling"] == "worker 1 to 5 pods"


def test_gpus_are_counted_as_many_as_the_autoscaler_may_ask_for() -> None:
    assert ray(scaled(1, 5)).resolution.gpus == 40


def test_a_gang_waits_for_the_fewest() -> None:
    """By what the operator counts (batchscheduler/volcano, calculatePodGroupParams)."""
    gang = ray(scaled(1, 5), CASES["gang"][1]).plan.gang
    assert gang is not None
    assert gang.minimum == 2


@pytest.mark.parametrize(("key", "value", "fix"), [
    ("pip", ["torch"], "or name releases (pip: [name==1.2.3])"),
    ("working_dir", "https://example.com/a.zip", "or name an archive that nobody replaces"),
])  # fmt: skip
def test_what_is_fetched_can_be_pinned_in_its_own_way(key: str, value: Any, fix: str) -> None:
    (finding,) = findings({**COMMAND, "topology": {**RAY["topology"], "runtime_env": {key: value}}}, PROFILE)
    assert (finding.code, fix in str(finding.fix)) == ("TW465", True)


@pytest.mark.parametrize(("run", "cluster", "words"), [
    (scaled(3, 5), {}, "role worker begins with 2 pods, and the autoscaler keeps it between 3 and 5"),
    ({**scaled(1, 5), "queue": "q"},
     {"kueue": {"version": "0.16.0"}, "namespaces": {"training": {"queues": {"q": {"managed": False}}}}},
     "Kueue admits a RayJob as a whole, and none whose autoscaler is on"),
    ({**TRAINER, "topology": scaled(1, 5)["topology"]}, {}, "the ranks are as many as the plan says"),
    ({**COMMAND, "topology": {**RAY["topology"], "autoscaling": {"readers": {"min_nodes": 1, "max_nodes": 2}}}}, {},
     "no workers are called readers"),
    ({**TRAINER, "topology": {**RAY["topology"], "runtime_env": {"env_vars": {"A": "1"}}}}, {}, "programs of the image"),
    ({**COMMAND, "topology": {**RAY["topology"], "runtime_env": {"pip": ["torch"]}}}, {}, "has under pip is fetched"),
    ({**COMMAND, "topology": {**RAY["topology"], "runtime_env": {"working_dir": "https://example.com/a.zip"}}}, {},
     "has under working_dir is fetched"),
    ({**COMMAND, "topology": {**RAY["topology"], "runtime_env": {"env_vars": {"HF_TOKEN": "hf_0123456789abcdefghij"}}}}, {},
     "HF_TOKEN looks like a secret"),
    ({**COMMAND, "roles": {"readers": {"pods": 1, "starts": "before"}}}, {}, "starts has no place"),
    ({**COMMAND, "roles": {"readers": {"pods": 1, "command": ["a"]}}}, {}, "starts Ray in every pod"),
])  # fmt: skip
def test_what_no_ray_cluster_can_do(run: Data, cluster: Data, words: str) -> None:
    assert any(words in finding.message for finding in findings(run, overlay(PROFILE, cluster)))


def test_releases_that_are_named_are_not_fetched_anew() -> None:
    stated = {"pip": {"packages": ["a==1.0", "b @ https://example.com/b-1.0.whl"]}, "env_vars": {"MODE": "fast"}}
    run = {**COMMAND, "topology": {**RAY["topology"], "runtime_env": stated}}
    assert findings(run, PROFILE) == []
    text = job(run)["spec"]["runtimeEnvYAML"]
    assert text == "pip:\n  packages:\n  - a==1.0\n  - b @ https://example.com/b-1.0.whl\nenv_vars:\n  MODE: fast\n"


def test_bounds_are_in_order() -> None:
    with pytest.raises(ValueError, match="swap them"):
        ray(scaled(5, 1))


def test_the_longest_name_of_a_run_is_cut_as_kuberay_cuts_it() -> None:
    """``PodName`` of ray-operator/controllers/ray/utils/util.go: 50 characters before what the pod is."""
    result = compiled(on("ray-job", run="n" * 38), profile_for("ray-job"))
    made = [one for one in pods(result.manifests) if one.role != "submitter"]
    assert len(result.plan.name) == RayJob.longest_name
    assert all(len(pod.host) <= 63 for pod in made)
    cluster = f"{result.plan.name}-abcde"
    prefixes = {pod.manifest["metadata"]["generateName"] for pod in made}
    assert prefixes == {f"{cluster[:50]}-head-", f"{cluster[:50]}-worker-"}
