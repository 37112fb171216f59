"""Volumes, variables from elsewhere, and annotations: what a pod finds around its program."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import RUN, Data, codes, compiled, findings, script
from tests.compiler.findings.page import overlay
from tests.compiler.targets import on, profile_for

from trainwright.findings import CompileError
from trainwright.findings.locate import escape
from trainwright.manifest.pods import pods_in
from trainwright.reading import validate_data
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
    return {"namespaces": {"training": {"pod_security": level}}}


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
    ({"secret": "keys", "item": {"a": "b"}}, "items"),
    ({"secrt": "keys"}, "did you mean `secret`"),
])  # fmt: skip
def test_what_is_wrong_with_a_mount(mount: Data, words: str) -> None:
    with pytest.raises(CompileError) as refused:
        validate_data(Run, overlay(RUN, {"mounts": {"/x": mount}}), "run.yaml", {})
    (finding,) = refused.value.findings
    assert str(finding.where.pointer).startswith("/mounts/~1x/")
    assert words in f"{finding.message} {finding.fix}"


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
