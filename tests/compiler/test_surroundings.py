"""Volumes, variables from elsewhere, and annotations: what a pod finds around its program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import CLUSTER, RUN, Data, codes, command, compiled, findings, script
from tests.compiler.findings.page import overlay
from tests.compiler.objects import assert_accepted
from tests.compiler.targets import CASES, on, profile_for

from trainwright.findings import CompileError
from trainwright.findings.locate import escape
from trainwright.manifest.pods import pods_in
from trainwright.manifest.provenance import split
from trainwright.operators import TARGETS
from trainwright.operators.base import run_pods
from trainwright.reading import validate_data
from trainwright.rules.pods.pod_security import level_of, violations
from trainwright.run import Run

VOLUMES: Data = {
    "/settings": {"config_map": "settings", "items": {"app.conf": "app/app.conf"}, "mode": "0555"},
    "/keys": {"secret": "keys", "mode": "0400"},
    "/fast": {"ephemeral": "100Gi", "storage_class": "local-nvme"},
    "/bucket": {"csi": "s3.csi.example.com", "attributes": {"bucketName": "models"}, "secret": "bucket", "read_only": True},
}
OF_THE_NODE: Data = {
    "/firmware": {"host_path": "/lib/firmware", "type": "Directory", "read_only": True},
    "/home": {"nfs": "10.0.0.2", "path": "/export/home"},
}


def pod_of(run: Data, cluster: Data | None = None) -> dict[str, Any]:
    manifests = compiled(script("python", "x.py") | run, cluster).manifests
    (pod,) = [template for manifest in manifests for _, template in pods_in(manifest)]
    return pod


def of_level(level: str) -> Data:
    """The example's cluster with a namespace of a level, and with the storage class that a volume here is from."""
    return {"namespaces": {"training": {"pod_security": level}}, "storage_classes": {"local-nvme": {"access": ["ReadWriteOnce"]}}}


def test_volumes_and_their_mounts(snapshot: SnapshotAssertion) -> None:
    spec = pod_of({"mounts": VOLUMES | OF_THE_NODE}, of_level("privileged"))["spec"]
    paths = VOLUMES.keys() | OF_THE_NODE.keys()
    mounts = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["mountPath"] in paths]
    names = {mount["name"] for mount in mounts}
    assert {"mounts": mounts, "volumes": [volume for volume in spec["volumes"] if volume["name"] in names]} == snapshot


@pytest.mark.parametrize(("mounts", "level", "allowed"), [
    (VOLUMES, "restricted", True),
    ({"/home": OF_THE_NODE["/home"]}, "baseline", True),
    ({"/home": OF_THE_NODE["/home"]}, "restricted", False),
    ({"/firmware": OF_THE_NODE["/firmware"]}, "privileged", True),
    ({"/firmware": OF_THE_NODE["/firmware"]}, "baseline", False),
])  # fmt: skip
def test_the_level_of_the_namespace_decides(mounts: Data, level: str, allowed: bool) -> None:
    refused = findings(script("python", "x.py") | {"mounts": mounts}, of_level(level))
    (path, *_) = mounts
    expected = [] if allowed else [("TW604", f"/mounts/{escape(path)}")]
    assert [(finding.code, finding.where.pointer) for finding in refused] == expected


@pytest.mark.parametrize(("mount", "words"), [
    ({"nfs": "10.0.0.2"}, "path"),
    ({"secret": "keys", "mode": 400}, "mode"),
    ({"config_map": "settings", "items": {"a": "../b"}}, "it must stay inside the volume"),
    ({"host_path": "lib"}, "an absolute path"),
    ({"host_path": "/a/../b"}, "the API server takes no '..'"),
    ({"projected": [{"config_map": "a"}, {"fields": {"me": "spec.nodeName"}}]}, "spec.nodeName is no field that a file can hold"),
    ({"projected": [{"config_map": "a"}, {"fields": {"me": "metadata.nme"}}]}, "write one of the pod's metadata"),
    ({"config_map": "settings", "items": {"a": "..data"}}, "its name starts with '..'"),
    ({"secret": "keys", "item": {"a": "b"}}, "items"),
    ({"secrt": "keys"}, "did you mean `secret`"),
])  # fmt: skip
def test_what_is_wrong_with_a_mount(mount: Data, words: str) -> None:
    with pytest.raises(CompileError) as refused:
        validate_data(Run, overlay(RUN, {"mounts": {"/x": mount}}), "run.yaml", {})
    finding = refused.value.findings[0]
    assert str(finding.where.pointer).startswith("/mounts/~1x/")
    assert words in f"{finding.message} {finding.fix}"


@pytest.mark.parametrize("sources", [
    [{"config_map": "a", "items": {"k": "f"}}, {"secret": "b", "items": {"k": "f"}}],
    [{"config_map": "a", "items": {"k": "f", "l": "f"}}], [{"fields": {"f": "metadata.uid"}}, {"token": "f", "audience": "a"}],
])  # fmt: skip
def test_two_sources_of_one_file(sources: list[Data]) -> None:
    with pytest.raises(CompileError, match="two sources write the file f"):
        validate_data(Run, overlay(RUN, {"mounts": {"/x": {"projected": sources}}}), "run.yaml", {})


def test_what_a_file_and_a_path_of_the_node_may_be() -> None:
    fields = {path: f"metadata.{path}" for path in ("name", "namespace", "uid", "labels", "annotations")}
    mounts: Data = {"/x": {"projected": [{"fields": {**fields, "rack": "metadata.labels['rack']"}}]}, "/host": {"host_path": "/"}}
    volumes = pod_of({"mounts": mounts}, of_level("privileged"))["spec"]["volumes"]
    (files,) = [one["projected"]["sources"][0]["downwardAPI"]["items"] for one in volumes if "projected" in one]
    assert [item["fieldRef"]["fieldPath"] for item in files] == [fields[key] for key in sorted(fields) if key < "rack"] + [
        "metadata.labels['rack']", fields["uid"]]
    assert [one["hostPath"] for one in volumes if "hostPath" in one] == [{"path": "/"}]


@pytest.mark.parametrize("mounts", [
    {"/x": {"ephemeral": "5Gi", "storage_class": "nope"}},
    {"/x": {"volume": {"ephemeral": {"volumeClaimTemplate": {"spec": {
        "storageClassName": "nope", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}}}}}},
])  # fmt: skip
@pytest.mark.parametrize("target", ["indexed-job", "pytorch-job"])
def test_a_storage_class_that_the_profile_lacks(mounts: Data, target: str) -> None:
    run = overlay(on(target, **command("torchrun", "x.py")), {"mounts": mounts})
    assert [one.code for one in findings(run, profile_for(target)) if one.code == "TW312"] == ["TW312"]
    assert "TW312" not in codes(run, overlay(profile_for(target), {"storage_classes": {"nfs": None}, "namespaces": {
        "training": {"claims": {"checkpoints": {"storage_class": None}}}}})), "a profile may list none"


def test_a_storage_class_that_does_not_offer_the_access() -> None:
    shared = {"storage_classes": {"local-nvme": {"access": ["ReadWriteMany"]}}}
    assert "TW312" in codes(command("x") | {"mounts": {"/fast": VOLUMES["/fast"]}}, shared)


VARIABLES: Data = {
    "env": {"NODE": {"field": "spec.nodeName"}, "MODE": {"config_map": "settings", "key": "mode"}},
    "env_from": [{"secret": "object-store"}, {"config_map": "settings", "prefix": "APP_"}],
}


def test_variables_from_elsewhere() -> None:
    container = pod_of(VARIABLES)["spec"]["containers"][0]
    assert [variable for variable in container["env"] if variable["name"] in VARIABLES["env"]] == [
        {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
    ]
    assert container["envFrom"] == [
        {"secretRef": {"name": "object-store"}}, {"prefix": "APP_", "configMapRef": {"name": "settings"}},
    ]


def test_mpirun_passes_on_what_has_a_name_and_is_the_same_everywhere() -> None:
    run = on("mpi-job", env=VARIABLES["env"], env_from=VARIABLES["env_from"])
    where = [str(finding.where.pointer) for finding in findings(run, profile_for("mpi-job")) if finding.code == "TW427"]
    assert where == ["/env_from/0", "/env_from/1", "/env/NODE"]


def test_annotations_of_pods() -> None:
    assert pod_of({"pod_annotations": {"k8s.v1.cni.cncf.io/networks": "a,b"}})["metadata"]["annotations"] == {
        "k8s.v1.cni.cncf.io/networks": "a,b"
    }


@pytest.mark.parametrize(("key", "code"), [
    ("scheduling.k8s.io/group-name", "TW451"), ("kueue.x-k8s.io/podset-required-topology", "TW451"),
    ("trainwright.dev/role", "TW410"), ("example.com/note", None),
])  # fmt: skip
def test_annotations_that_the_plan_sets(key: str, code: str | None) -> None:
    assert codes({"pod_annotations": {key: "x"}}) == ([code] if code else [])


PROJECTED: Data = {"projected": [
    {"config_map": "settings", "items": {"app.conf": "app/app.conf"}}, {"secret": "keys"},
    {"fields": {"labels/rack": "metadata.labels['rack']", "me": "metadata.name"}},
    {"token": "token", "audience": "sts.example.com", "expires": "2h"},
], "mode": "0440"}  # fmt: skip
PINNED = "registry.example.com/models@sha256:" + "a" * 64


@pytest.mark.parametrize("name", CASES)
def test_every_target_carries_projected_files_and_images(name: str) -> None:
    cluster = overlay(profile_for(name), {"kubernetes": "1.36", "namespaces": {"training": {"pod_security": "baseline"}}})
    mounts = {"/all": PROJECTED, "/models": {"image": PINNED, "sub_path": "llama"}}
    result = compiled(overlay(on(name), {"mounts": mounts}), cluster)
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    lowered = [split(tree)[0] for tree in TARGETS[name].lower(result.resolution)]
    ranks = result.resolution.binding.ranks.name
    pod = next(pod for pod in run_pods(TARGETS[name], result.resolution, lowered) if pod.role == ranks).found.spec
    volumes = {key: one[key] for one in pod["volumes"] for key in ("projected", "image") if key in one}
    assert volumes == {"image": {"reference": PINNED}, "projected": {"defaultMode": 0o440, "sources": [
        {"configMap": {"name": "settings", "items": [{"key": "app.conf", "path": "app/app.conf"}]}},
        {"secret": {"name": "keys"}},
        {"downwardAPI": {"items": [
            {"path": "labels/rack", "fieldRef": {"fieldPath": "metadata.labels['rack']"}},
            {"path": "me", "fieldRef": {"fieldPath": "metadata.name"}},
        ]}},
        {"serviceAccountToken": {"path": "token", "audience": "sts.example.com", "expirationSeconds": 7200}},
    ]}}  # fmt: skip
    assert [one["subPath"] for one in pod["containers"][0]["volumeMounts"] if one["mountPath"] == "/models"] == ["llama"]


@pytest.mark.parametrize(("kubernetes", "image", "level", "code"), [
    ("1.36", PINNED, "baseline", None), ("1.34", PINNED, "baseline", "TW462"),
    ("1.36", "registry.example.com/models:latest", "baseline", "TW305"), ("1.36", PINNED, "restricted", None),
])  # fmt: skip
def test_an_image_of_files_is_held_to_the_rules(kubernetes: str, image: str, level: str, code: str | None) -> None:
    cluster = {"kubernetes": kubernetes, "namespaces": {"training": {"pod_security": level}}}
    run = {"mounts": {"/models": {"image": image}}}
    said = [one.code for one in findings(run, cluster) if one.where.pointer == "/mounts/~1models/image"]
    assert said == ([code] if code else [])


@pytest.mark.parametrize(("kubernetes", "level"), [("1.32", "baseline"), ("1.33", "restricted"), ("1.36", "restricted")])
def test_restricted_allows_images_since_1_33(kubernetes: str, level: str) -> None:
    """kubernetes#130394. A JobSet runs on older versions."""
    pod: Data = {"volumes": [{"name": "m", "image": {"reference": PINNED}}], "containers": []}
    assert level_of(pod, kubernetes)[0] == level
    assert bool(list(violations(pod, "restricted", kubernetes))) == (level != "restricted")


def test_a_token_lives_long_enough() -> None:
    mount = {"projected": [{"token": "t", "audience": "a", "expires": "5m"}]}
    with pytest.raises(CompileError, match="10 minutes at least"):
        validate_data(Run, overlay(RUN, {"mounts": {"/x": mount}}), "run.yaml", {})


def test_a_file_has_the_mode_that_is_stated_and_others_keep_theirs() -> None:
    files = {"/app/start.sh": "#!/bin/sh\nexec python train.py\n", "/app/settings.json": {"depth": 3}}
    spec = pod_of({"files": files, "file_modes": {"/app/start.sh": "0555"}})["spec"]
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "spec"]
    keys = {mount["mountPath"]: mount["subPath"] for mount in spec["containers"][0]["volumeMounts"] if "subPath" in mount}
    modes = {item["path"]: item.get("mode") for item in volume["configMap"]["items"]}
    assert modes[keys["/app/start.sh"]] == 0o555
    assert modes[keys["/app/settings.json"]] is None
    assert "run.json" in modes, "a list of items leaves out what it does not name"


def test_a_mode_needs_its_file() -> None:
    with pytest.raises(CompileError, match=r"file_modes has /app/other\.sh, which is not among files"):
        validate_data(Run, overlay(RUN, {"file_modes": {"/app/other.sh": "0555"}}), None, {})


@pytest.mark.parametrize("target", CASES)
def test_every_container_with_the_image_of_the_run_is_pulled_as_it_says(target: str) -> None:
    result = compiled(on(target, image_pull_policy="Never"), profile_for(target))
    assert policies(result.manifests, RUN["image"]) == {"Never"}


def test_so_is_the_container_that_waits_for_data_and_not_the_tool_that_brings_it() -> None:
    tool = "registry.example.com/rclone@sha256:" + "5" * 64
    secret = {"access_key": {"secret": "store", "key": "id"}, "secret_key": {"secret": "store", "key": "key"}}
    source: Data = {"source": "s3://example/images", "image": tool, "credentials": secret}
    manifests = compiled({
        "prepare": {"/data/images": source}, "mounts": {"/data": {"claim": "checkpoints"}}, "image_pull_policy": "Always",
    }).manifests  # fmt: skip
    assert policies(manifests, RUN["image"]) == {"Always"}
    assert policies(manifests, tool) == {None}


def policies(manifests: Sequence[Data], image: str) -> set[str | None]:
    """How the containers with an image are pulled."""
    return {
        container.get("imagePullPolicy") for manifest in manifests for _, template in pods_in(manifest)
        for key in ("initContainers", "containers") for container in template["spec"].get(key) or []
        if container["image"] == image
    }  # fmt: skip


@pytest.mark.parametrize("target", CASES)
def test_pods_with_ranks_get_the_devices_of_the_pool_and_of_the_run(target: str) -> None:
    of_pool = {"pods": {"resource_claims": {"rdma": {"template": "default-rdma"}, "imex": {"template": "other"}}}}
    known = profile_for(target)
    profile = overlay(known, {"kubernetes": "1.36", "node_pools": dict.fromkeys(overlay(CLUSTER, known)["node_pools"], of_pool)})
    claims = {"imex": {"claim": "channel", "request": "domain"}}
    result = compiled(on(target, resource_claims=claims), profile)
    roles = {role.name: role for role in result.resolution.binding.roles}
    pods = list(run_pods(TARGETS[target], result.resolution, result.manifests))
    assert any(roles[pod.role].holds_ranks for pod in pods if pod.role)
    for pod in pods:
        main = pod.found.spec["containers"][0]
        if pod.role and roles[pod.role].holds_ranks:
            assert pod.found.spec["resourceClaims"] == [
                {"name": "rdma", "resourceClaimTemplateName": "default-rdma"}, {"name": "imex", "resourceClaimName": "channel"},
            ]  # fmt: skip
            assert main["resources"]["claims"] == [{"name": "rdma"}, {"name": "imex", "request": "domain"}]
            assert main["resources"]["limits"]["cpu"]
        else:
            assert "resourceClaims" not in pod.found.spec
            assert "claims" not in main.get("resources", {})


@pytest.mark.parametrize(("version", "code"), [("1.30", "TW307"), ("1.33", "TW462"), ("1.34", None)])
def test_claims_need_a_release_that_serves_them(version: str, code: str | None) -> None:
    asked = {"resource_claims": {"rdma": {"template": "default-rdma"}}}
    if code == "TW307":
        with pytest.raises(CompileError, match="does not know resource claims in this form"):
            compiled(on("pytorch-job", **asked), overlay(profile_for("pytorch-job"), {"kubernetes": version}))
        return
    codes = {finding.code for finding in compiled(asked, {"kubernetes": version}).findings}
    assert codes & {"TW462"} == ({code} if code else set())


@pytest.mark.parametrize("claim", [{}, {"template": "a", "claim": "b"}, {"request": "a"}])
def test_a_claim_names_one_thing(claim: Data) -> None:
    with pytest.raises(CompileError, match=r"names (both|neither)"):
        validate_data(Run, overlay(RUN, {"resource_claims": {"rdma": claim}}), None, {})
