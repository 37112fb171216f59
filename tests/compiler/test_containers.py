"""Containers next to the one that trains, and what all pods of a pool bring along."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import RUN, Data, codes, compiled, findings, script
from tests.compiler.findings.page import overlay
from tests.compiler.objects import assert_accepted, assert_beside_ranks
from tests.compiler.targets import CASES, on, profile_for

from trainwright.findings import CompileError
from trainwright.manifest.pods import pods_in
from trainwright.reading import validate_data
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_rows
from trainwright.run import Run

IMAGE = "registry.example.com/tools/helper@sha256:" + "a" * 64
AMOUNTS: Data = {"image": IMAGE, "cpu": "1", "memory": "1Gi"}
DAEMON: Data = {
    "name": "network-daemon", "kind": "sidecar", "command": ["/daemon"], "args": ["--nics=8"],
    "env": {"LD_LIBRARY_PATH": "/lib/own"},
    "mounts": {"/lib/own": {"same_as": "/usr/local/nvidia"}, "/hostsysfs": {"host_path": "/sys"}},
    "security": {"user": 0, "capabilities": ["NET_ADMIN"]},
    "started": {"command": ["cat", "/run/well"], "every": "5s", "failures": 6}, **AMOUNTS,
}  # fmt: skip
POOL: Data = {
    "annotations": {"devices.gke.io/container.network-daemon": "- path: /dev/nvidia0\n"},
    "env": {"APP_LIBRARIES": "/usr/local/nvidia/lib64"},
    "mounts": {"/usr/local/nvidia": {"host_path": "/home/kubernetes/bin/nvidia", "read_only": True}},
    "tolerations": [{"key": "cloud.google.com/about-to-end"}, {"key": "a.b/c", "value": "d", "effect": "NoExecute"}],
    "containers": [DAEMON],
}


def of_pool(pods: Data, level: str = "privileged") -> Data:
    return {"namespaces": {"training": {"pod_security": level}}, "node_pools": {"h100": {"pods": pods}}}


def pod_of(run: Data, cluster: Data | None = None) -> dict[str, Any]:
    manifests = compiled(script("python", "x.py") | {"security": {"user": 1000}} | run, cluster).manifests
    (pod,) = [template for manifest in manifests for _, template in pods_in(manifest)]
    return pod


def test_what_a_pool_brings_along_is_in_every_pod_that_lands_there(snapshot: SnapshotAssertion) -> None:
    run = script("python", "x.py") | {"security": {"user": 1000}}
    pod, result = pod_of({}, of_pool(POOL)), compiled(run, of_pool(POOL))
    main, spec = pod["spec"]["containers"][0], pod["spec"]
    rows, facts = dict(plan_rows(result)), plan_facts(result)
    assert {
        "annotations": pod["metadata"]["annotations"], "init": spec["initContainers"], "tolerations": spec["tolerations"],
        "env": [one for one in main["env"] if one["name"].startswith("APP_")],
        "mounts": [one for one in main["volumeMounts"] if one["name"].startswith("of-")],
        "volumes": [one for one in spec["volumes"] if one["name"].startswith("of-")],
        "plan": [rows["containers"], rows["pod security"]],
        "facts": {key: value for key, value in facts.items() if "pool" in key and key != "node_pool"},
    } == snapshot
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)


def test_a_run_replaces_what_it_states_itself() -> None:
    own: Data = {
        "pod_annotations": {"devices.gke.io/container.network-daemon": "mine"}, "env": {"APP_LIBRARIES": "/mine"},
        "mounts": {"/usr/local/nvidia": {"scratch": "1Gi"}},
        "containers": [{"name": "network-daemon", "kind": "init", **AMOUNTS}],
    }
    pod = pod_of(own, of_pool(POOL))
    main = pod["spec"]["containers"][0]
    assert pod["metadata"]["annotations"]["devices.gke.io/container.network-daemon"] == "mine"
    assert [one["value"] for one in main["env"] if one["name"] == "APP_LIBRARIES"] == ["/mine"]
    assert [one["name"] for one in main["volumeMounts"] if one["mountPath"] == "/usr/local/nvidia"] == ["scratch-1"]
    assert ["restartPolicy" in one for one in pod["spec"]["initContainers"]] == [False]


@pytest.mark.parametrize("name", CASES)
def test_every_target_carries_them(name: str) -> None:
    stated = [
        {"name": "installer", "kind": "init", **AMOUNTS},
        {"name": "relay", "kind": "sidecar", "mounts": {"/theirs": {"same_as": "/checkpoints"}}, **AMOUNTS},
        {"name": "watcher", "kind": "beside", "ends_itself": True, **AMOUNTS},
    ]
    assert_beside_ranks(compiled(on(name, containers=stated), profile_for(name)), ["installer", "relay", "watcher"])


def test_volumes_of_a_pool_and_of_a_container_have_names_of_their_own() -> None:
    """Both are called after whose they are."""
    container = {"name": "pool", "kind": "sidecar", "mounts": {"/own": {"scratch": "1Gi"}}, **AMOUNTS}
    pool = {"node_pools": {"h100": {"pods": {"mounts": {"/pool": {"scratch": "1Gi"}}}}}}
    (found,) = findings({"containers": [container]}, pool)
    assert (found.code, found.where.pointer) == ("TW601", "/containers/0/name")
    assert findings({"containers": [container]}) == []


SHARED: Data = {
    "mounts": {"/data": {"claim": "dataset", "sub_path": "team/images", "read_only": True}},
    "files": {"/app/settings.json": "{}"},
}


def test_what_is_shared_is_what_the_run_mounts_and_not_the_volume_around_it() -> None:
    own = {"/theirs": {"same_as": "/data"}, "/settings.json": {"same_as": "/app/settings.json", "read_only": True}}
    pod = pod_of(SHARED | {"containers": [{"name": "relay", "kind": "sidecar", "mounts": own, **AMOUNTS}]}, of_pool({}))
    main = {mount["mountPath"]: mount for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    theirs = {mount["mountPath"]: mount for mount in pod["spec"]["initContainers"][0]["volumeMounts"]}
    assert main["/data"]["subPath"] == "team/images"
    for path, other in (("/theirs", "/data"), ("/settings.json", "/app/settings.json")):
        assert {key: theirs[path][key] for key in ("name", "subPath")} == {key: main[other][key] for key in ("name", "subPath")}


@pytest.mark.parametrize(("written", "expected"), [
    ({}, {"subPath": "team/images"}),
    ({"subPath": "cats"}, {"subPath": "team/images/cats"}),
    ({"subPathExpr": "$(POD)"}, {"subPathExpr": "team/images/$(POD)"}),
])  # fmt: skip
def test_a_container_as_kubernetes_writes_it_shares_the_same(written: Data, expected: Data) -> None:
    amounts = {"cpu": 1, "memory": "1Gi"}
    container = {"name": "relay", "image": AMOUNTS["image"], "resources": {"requests": amounts, "limits": amounts},
                 "env": [{"name": "POD", "value": "x"}], "volumeMounts": [{"name": "data", "mountPath": "/theirs", **written}]}
    stated = {"kind": "sidecar", "container": container, "volumes": [{"name": "data", "same_as": "/data"}]}
    pod = pod_of(SHARED | {"containers": [stated]}, of_pool({}))
    (mount,) = pod["spec"]["initContainers"][0]["volumeMounts"]
    assert {key: value for key, value in mount.items() if key.startswith("subPath")} == expected


@pytest.mark.parametrize(("container", "code"), [
    ({"kind": "beside"}, "TW607"),
    ({"kind": "init", "image": "registry.example.com/x:latest"}, "TW305"),
    ({"kind": "init", "image": "elsewhere.example.com/x:latest"}, "TW306"),
    ({"kind": "init", "memory": "9Ti"}, "TW308"),
    ({"kind": "sidecar", "roles": ["launcher"]}, "TW327"),
    ({"kind": "sidecar", "mounts": {"/x": {"same_as": "/nowhere"}}}, "TW233"),
    ({"kind": "sidecar", "mounts": {"/x": {"host_path": "/sys"}}}, "TW604"),
    ({"kind": "sidecar", "security": {"user": 0}}, "TW604"),
    ({"kind": "sidecar", "env": {"HF_TOKEN": "hf_" + "a" * 34}}, "TW409"),
    ({"kind": "sidecar"}, None),
])  # fmt: skip
def test_they_are_held_to_the_same_rules(container: Data, code: str | None) -> None:
    run = script("python", "x.py") | {"containers": [{"name": "helper", **AMOUNTS, **container}]}
    cluster = {"registries": ["registry.example.com"], "namespaces": {"training": {"pod_security": "restricted"}}}
    said = [(one.code, str(one.where.pointer)) for one in findings(run, cluster) if one.code == code or code is None]
    assert all(place.startswith("/containers/0") for _, place in said)
    assert bool(said) == (code is not None)


def test_what_is_stated_beside_is_told_what_it_lacks_there() -> None:
    said = findings(script("python", "x.py") | {"containers": [{"name": "helper", "kind": "beside", **AMOUNTS}]})
    assert [one.fix for one in said if one.code == "TW607"] == [
        "write kind: sidecar, which Kubernetes ends with the run; or add ends_itself: true, if it ends by itself"
    ]


def test_what_a_pool_brings_to_ranks_is_not_said_of_a_run_that_has_none_there() -> None:
    """The launcher of mpirun goes to a pool whose daemon is for pods with ranks."""
    daemon = {"name": "daemon", "kind": "sidecar", "security": {"privileged": True}, **AMOUNTS}
    small = {"cpus": 64, "memory": "256Gi", "pods": {"containers": [daemon]}}
    profile = overlay(profile_for("mpi-job"), {"node_pools": {"small": small}})
    topology = {"kind": "horovod", "nodes": 2, "gpus_per_node": 8}
    run = on("mpi-job", topology=topology, roles={"launcher": {"node_pool": "small"}})
    result = compiled(run, profile)
    assert "daemon" not in str(result.manifests)
    assert "containers" not in dict(plan_rows(result))
    assert not [key for key in plan_facts(result) if "daemon" in key]
    assert "TW604" not in codes(run, profile)


@pytest.mark.parametrize(("stated", "places"), [
    ({"env": {"A": "$(B)", "B": "b"}}, ["/env/A"]),
    ({"env": {"B": "b", "A": "$(B) $$(C)"}}, []),
    ({"env": {"B": "b"}, "command": ["run", "$(B)"], "args": ["$(NODE_RANK)"]}, ["/args/0"]),
    ({"command": ["sh", "-c", "echo $(date)"]}, []),
])  # fmt: skip
def test_a_container_knows_its_own_variables_alone(stated: Data, places: list[str]) -> None:
    said = findings(script("python", "x.py") | {"containers": [{"name": "helper", "kind": "init", **AMOUNTS, **stated}]})
    assert [(one.code, one.where.pointer) for one in said] == [("TW419", f"/containers/0{place}") for place in places]


@pytest.mark.parametrize(("asked", "level", "places"), [
    ({"privileged": True, "user": 0, "capabilities": ["NET_ADMIN"]}, "restricted", ["privileged", "capabilities/0", "user"]),
    ({"privileged": True}, "restricted", ["privileged"]),
    ({"privileged": True, "capabilities": ["CHOWN"]}, "baseline", ["privileged"]),
    ({"user": 0}, "baseline", []),
    ({"privileged": True}, "privileged", []),
])  # fmt: skip
def test_the_level_refuses_what_a_container_states_and_not_what_follows(asked: Data, level: str, places: list[str]) -> None:
    """A container has no securityContext of its own: what the level wants of it is written for it."""
    stated = {"name": "helper", "kind": "sidecar", "security": asked, **AMOUNTS}
    said = findings(script("python", "x.py") | {"security": {"user": 1000}, "containers": [stated]}, of_pool({}, level))
    assert [one.where.pointer for one in said] == [f"/containers/0/security/{place}" for place in places]
    assert not [one for one in said if "securityContext" in one.fix]


@pytest.mark.parametrize(("user", "root", "words"), [
    (1000, True, "user 1000, that of its pod: with root: true it is not root"),
    (0, False, "user 0, that of its pod: with root: false the kubelet would refuse to start it"),
    (0, True, None),
    (1000, False, None),
    (None, True, None),
    (None, False, None),
])  # fmt: skip
def test_a_container_has_the_user_of_its_pod_unless_it_states_one(user: int | None, root: bool, words: str | None) -> None:
    stated = {"name": "helper", "kind": "sidecar", "security": {"root": root}, **AMOUNTS}
    whole = {"root": True} if user is None else {"user": user}
    said = findings(script("python", "x.py") | {"security": whole, "containers": [stated]}, of_pool({}, "privileged"))
    assert [(one.code, one.where.pointer) for one in said] == ([("TW601", "/containers/0/security/root")] if words else [])
    assert not words or words in said[0].message


@pytest.mark.parametrize(("pods", "code", "place"), [
    ({"env": {"RANK": "0"}}, "TW403", "/env/RANK"),
    ({"env": {"APP_TOKEN": "hf_" + "a" * 34}}, "TW409", "/env/APP_TOKEN"),
    ({"mounts": {"/dev/shm": {"scratch": "1Gi"}}}, "TW233", "/mounts/~1dev~1shm"),
    ({"mounts": {"/x": {"host_path": "/sys"}}}, "TW604", "/mounts/~1x"),
    ({"containers": [{"name": "helper", "kind": "beside", **AMOUNTS}]}, "TW607", "/containers/0"),
])  # fmt: skip
def test_a_pool_is_held_to_them_too(pods: Data, code: str, place: str) -> None:
    said = findings(script("python", "x.py") | {"security": {"user": 1000}}, of_pool(pods, "restricted"))
    assert (code, f"/node_pools/h100/pods{place}") in [(one.code, one.where.pointer) for one in said]


@pytest.mark.parametrize(("container", "words"), [
    ({"kind": "init", "started": {"port": 80}}, "started is for a sidecar"),
    ({"kind": "sidecar", "ends_itself": True}, "ends_itself is for kind beside"),
    ({"kind": "sidecar", "started": {"http": "/well"}}, "write either command"),
    ({"kind": "sidecar", "security": {"fs_group": 5}}, "fs_group is of the whole pod"),
])  # fmt: skip
def test_what_is_wrong_with_a_container(container: Data, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        validate_data(Run, overlay(RUN, {"containers": [{"name": "helper", **AMOUNTS, **container}]}), "run.yaml", {})


def test_overrides_leave_them_alone() -> None:
    run = {"containers": [{"name": "helper", "kind": "sidecar", **AMOUNTS}]}
    patch = {"initContainers": [{"name": "helper", "image": "registry.example.com/other:v1"}]}
    said = findings(script("python", "x.py") | run | {"overrides": {"pod": {"node": patch}}})
    assert ("TW601", True) in [(one.code, "change containers" in one.fix) for one in said]
