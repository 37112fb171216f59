"""What a run states goes to the pods that hold ranks; others have what their role states, or what is stated of all."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import RUN, Data, command, compiled, findings
from tests.compiler.findings.page import overlay
from tests.compiler.objects import assert_accepted
from tests.compiler.targets import on, profile_for

from trainwright.compile import CompiledRun
from trainwright.findings import CompileError
from trainwright.manifest.pods import pods_in
from trainwright.operators import TARGETS
from trainwright.operators.base import RunPod, run_pods
from trainwright.reading import validate_data
from trainwright.run import Run

WORDS: Data = {
    "node_affinity": {"required": [{"key": "example.com/gpu", "operator": "In", "values": ["b200"]}]},
    "pod_affinity": {"required": [{"labels": {"app": "cache"}, "topology_key": "example.com/rack"}]},
    "pod_anti_affinity": {"preferred": [{"labels": {"app": "serves"}, "topology_key": "kubernetes.io/hostname"}]},
    "runtime_class": "nvidia",
    "security": {"capabilities": ["SYS_RESOURCE"], "privileged": True},
    "resource_claims": {"channel": {"template": "channels"}},
    "pod_labels": {"example.com/net": "fast"},
    "pod_annotations": {"example.com/networks": "ib0"},
    "mounts": {"/dev/infiniband": {"host_path": "/dev/infiniband"}},
}
PRIVILEGED: Data = {"namespaces": {"training": {"pod_security": "privileged"}}, "kubernetes": "1.36"}
SERVERS: Data = {"kind": "parameter-server", "nodes": 2, "gpus_per_node": 8, "parameter_servers": 2, "coordinator": False}
RAY: Data = {"kind": "ray", "nodes": 2, "gpus_per_node": 8, "version": "2.52.0"}
READER: Data = {"readers": {"pods": 1, "command": ["read"]}}
ELSEWHERE: dict[str, tuple[str, Data, str]] = {
    "mpirun's launcher": ("mpi-job", command("mpirun", "x"), "launcher"),
    "our launcher": ("mpi-job", {}, "launcher"),
    "Ray's head": ("ray-job", {**command("python", "x.py"), "topology": {**RAY, "head_is_node": False}}, "head"),
    "a further role": ("job-set", {"roles": READER, "gang": False}, "readers"),
    "parameter servers": ("volcano-job", {**command("python", "x.py"), "topology": SERVERS}, "ps"),
}


def pods_of(run: Data, target: str) -> tuple[CompiledRun, dict[str, RunPod]]:
    """Role -> its pod; "" for one that has none."""
    result = compiled(on(target, **run), overlay(profile_for(target), PRIVILEGED))
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    return result, {pod.role or "": pod for pod in run_pods(TARGETS[target], result.resolution, result.manifests)}


def words_in(pod: RunPod) -> set[str]:
    """Which of the words have reached a pod."""
    spec, metadata = pod.found.spec, pod.found.template.get("metadata", {})
    rights = spec["containers"][0].get("securityContext", {})
    there: dict[str, Any] = {
        "node_affinity": spec.get("affinity", {}).get("nodeAffinity"),
        "pod_affinity": spec.get("affinity", {}).get("podAffinity"),
        "pod_anti_affinity": spec.get("affinity", {}).get("podAntiAffinity"),
        "runtime_class": spec.get("runtimeClassName"),
        "security": rights.get("privileged") or "SYS_RESOURCE" in rights.get("capabilities", {}).get("add", []),
        "resource_claims": spec.get("resourceClaims"),
        "pod_labels": "example.com/net" in metadata.get("labels", {}),
        "pod_annotations": "example.com/networks" in metadata.get("annotations", {}),
        "mounts": [one for one in spec.get("volumes", []) if "hostPath" in one],
    }
    return {name for name, value in there.items() if value}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_what_a_run_states_is_for_its_ranks(case: str) -> None:
    target, run, elsewhere = ELSEWHERE[case]
    result, pods = pods_of(overlay(run, WORDS), target)
    for role in result.resolution.binding.roles:
        if role.holds_ranks:
            assert words_in(pods[role.name]) == WORDS.keys()
    assert words_in(pods[elsewhere]) == ({"mounts"} if case == "parameter servers" else set()), "these run what the ranks run"


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_role_has_words_of_its_own(case: str) -> None:
    target, run, elsewhere = ELSEWHERE[case]
    result, pods = pods_of(overlay(run, {"roles": {elsewhere: WORDS}}), target)
    assert words_in(pods[elsewhere]) == WORDS.keys()
    others = [role.name for role in result.resolution.binding.roles if role.name != elsewhere]
    assert [words_in(pods[name]) for name in others] == [set()] * len(others)


@pytest.mark.parametrize("case", ELSEWHERE)
def test_all_is_said_once(case: str) -> None:
    target, run, _ = ELSEWHERE[case]
    _, pods = pods_of(overlay(run, {"roles": {"all": WORDS}}), target)
    assert [words_in(pod) for role, pod in pods.items() if role] == [set(WORDS)] * len(pods.keys() - {""})


@pytest.mark.parametrize(("stated", "there"), [
    (WORDS, set()),
    ({"roles": {"all": WORDS}},
     {"node_affinity", "pod_affinity", "pod_anti_affinity", "security", "pod_labels", "pod_annotations"}),
])  # fmt: skip
def test_the_submitter_of_a_ray_job_has_what_all_have(stated: Data, there: set[str]) -> None:
    target, run, _ = ELSEWHERE["Ray's head"]
    _, pods = pods_of(overlay(run, stated), target)
    assert words_in(pods[""]) == there


def test_a_launcher_and_a_head_that_hold_ranks_are_such_pods() -> None:
    node = {**command("mpirun", "x"), "topology": {"kind": "mpi", "nodes": 2, "gpus_per_node": 8, "launcher_is_node": True}}
    _, pods = pods_of(overlay(node, WORDS), "mpi-job")
    assert words_in(pods["launcher"]) == WORDS.keys()
    head = {**command("python", "x.py"), "topology": {**RAY, "head_is_node": True}}
    _, pods = pods_of(overlay(head, WORDS), "ray-job")
    assert words_in(pods["head"]) == WORDS.keys()


def test_the_nearest_statement_wins() -> None:
    run = {
        **command("mpirun", "x"), "pod_labels": {"a/b": "run", "a/c": "run"}, "security": {"user": 1000},
        "roles": {"all": {"pod_labels": {"a/b": "all", "a/d": "all"}}, "launcher": {"pod_labels": {"a/d": "launcher"}}},
    }
    _, pods = pods_of(run, "mpi-job")
    labels = {role: {key: value for key, value in pod.found.template["metadata"]["labels"].items() if key.startswith("a/")}
              for role, pod in pods.items()}  # fmt: skip
    assert labels == {"launcher": {"a/b": "all", "a/d": "launcher"}, "worker": {"a/b": "run", "a/c": "run", "a/d": "all"}}
    assert {pod.found.spec["securityContext"]["runAsUser"] for pod in pods.values()} == {1000}, "ssh has one user at both ends"


def test_our_supervisor_in_the_launcher_finds_the_history_of_the_run() -> None:
    for run, there in (({}, ["/checkpoints"]), (command("mpirun", "x"), [])):
        stated = overlay(run, {"mounts": {"/data": {"claim": "dataset", "read_only": True}}})
        result, _ = pods_of(stated, "mpi-job")
        assert list(result.resolution.mounts["launcher"]) == there


def test_a_further_role_is_told_of_checkpoints_that_it_sees() -> None:
    claim = {"/checkpoints": {"claim": "checkpoints", "read_only": True}}
    for mounts, told in (({}, False), (claim, True)):
        run = on("job-set", roles={"readers": {**READER["readers"], "mounts": mounts}}, gang=False)
        decided = compiled(run, profile_for("job-set")).resolution
        role = next(role for role in decided.binding.roles if role.further)
        assert ("TRAINWRIGHT_CHECKPOINT_DIRECTORY" in [one.name for one in decided.environment(role)]) == told


@pytest.mark.parametrize("topology", [{"together": "rack", "required": True}, {"together": "rack"}])
def test_the_place_of_the_ranks_binds_nobody_else(topology: Data) -> None:
    cluster = overlay(profile_for("mpi-job"), {"topology": {"rack": {"label": "example.com/rack"}}})
    result = compiled(on("mpi-job", **command("mpirun", "x"), placement=topology, gang=False), cluster)
    pods = run_pods(TARGETS["mpi-job"], result.resolution, result.manifests)
    launcher, worker = (pod.found.spec.get("affinity", {}) for pod in pods)
    assert launcher == {}
    (rule,) = worker["podAffinity"].values()
    selector = rule[0].get("podAffinityTerm", rule[0])["labelSelector"]
    assert selector["matchExpressions"] == [{"key": "trainwright.dev/role", "operator": "In", "values": ["worker"]}]


@pytest.mark.parametrize(("stated", "words"), [
    ({"pods": 2}, "write pods under one role"), ({"env": {"A": "b"}}, "write env under one role"),
    ({"mounts": {"/a": {"claim": "a"}, "nothing": 1}}, "nothing"),
])  # fmt: skip
def test_all_has_the_words_of_pods_alone(stated: Data, words: str) -> None:
    with pytest.raises(CompileError) as refused:
        validate_data(Run, overlay(RUN, {"roles": {"all": stated}}), "run.yaml", {})
    assert words in str(refused.value)


@pytest.mark.parametrize(("parts", "code", "place"), [
    ({"pod_labels": {"kueue.x-k8s.io/queue-name": "a"}}, "TW451", "pod_labels/kueue.x-k8s.io~1queue-name"),
    ({"pod_labels": {"trainwright.dev/role": "a"}}, "TW410", "pod_labels/trainwright.dev~1role"),
    ({"mounts": {"/data": {"claim": "nobody"}}}, "TW234", "mounts/~1data/claim"),
    ({"mounts": {"/usr/lib": {"scratch": "1Gi"}}}, "TW233", "mounts/~1usr~1lib"),
    ({"mounts": {"/x": {"host_path": "/x"}}}, "TW604", "mounts/~1x"),
    ({"mounts": {"/x": {"volume": {"persistentVolumeClaim": {"claimName": "a"}}}}}, "TW601",
     "mounts/~1x/volume/persistentVolumeClaim"),
    ({"security": {"privileged": True}}, "TW604", "security/privileged"),
])  # fmt: skip
def test_words_of_a_role_are_held_to_the_rules_on_those_of_the_run(parts: Data, code: str, place: str) -> None:
    level = {"namespaces": {"training": {"pod_security": "baseline"}}}
    for role in ("launcher", "all"):
        run = on("mpi-job", **command("mpirun", "x"), roles={role: parts})
        said = [(one.code, one.where.pointer) for one in findings(run, overlay(profile_for("mpi-job"), level))]
        assert (code, f"/roles/{role}/{place}") in said


def test_every_value_says_which_statement_it_is_from() -> None:
    target, run, elsewhere = ELSEWHERE["mpirun's launcher"]
    result = compiled(overlay(on(target, **run), {"roles": {elsewhere: WORDS}}), overlay(profile_for(target), PRIVILEGED))
    sources = {answer.source for answers in result.provenance() for answer in answers.values()}
    assert {f"run:/roles/launcher/{word}" for word in ("node_affinity", "runtime_class")} <= sources
    assert "run:/roles/launcher/pod_labels/example.com~1net" in sources
    assert len([pod for manifest in result.manifests for pod in pods_in(manifest)]) == 2


@pytest.mark.parametrize(("case", "words", "there"), [
    ("mpirun's launcher", ["bash", "/code/start.sh"], False), ("mpirun's launcher", ["mpirun", "python", "/code/a.py"], True),
    ("mpirun's launcher", ["bash", "-c", "exec /code/start.sh"], False), ("mpirun's launcher", ["/code/mpirun", "a"], False),
    ("Ray's head", ["python", "-u", "/code/a.py"], False), ("Ray's head", ["python", "a.py", "--data", "/code"], True),
    ("Ray's head", ["python", "-m", "/code"], True), ("parameter servers", ["python", "/code/a.py"], True),
    ("a further role", ["python", "/code/a.py"], False), ("a further role", ["/opt/read", "/code/a.py"], True),
])  # fmt: skip
def test_what_pods_start_is_there(case: str, words: list[str], there: bool) -> None:
    target, run, elsewhere = ELSEWHERE[case]
    mount = {"mounts": {"/code": {"claim": "dataset", "read_only": True}}}
    own = {"roles": {elsewhere: {"command": words}}} if case == "a further role" else {"workload": {"command": words}}
    stated = overlay(overlay(on(target, **run), mount), own)
    assert ("TW332" not in [one.code for one in findings(stated, profile_for(target))]) == there
    for name in (elsewhere, "all"):
        with_mount = overlay(stated, {"roles": {name: mount}})
        assert "TW332" not in [one.code for one in findings(with_mount, profile_for(target))]
