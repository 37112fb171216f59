"""Every pod that an object makes is one that the plan counts, however it came there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
from tests.compiler.example import Data, codes, compiled, findings
from tests.compiler.objects import catalogue, needs_crds
from tests.compiler.rules.test_pod import container
from tests.compiler.targets import CASES, on, profile_for

from trainwright.findings.locate import at
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.pods import images_outside, pods_in
from trainwright.operators.base import run_pods

FOREIGN = "evil.example.org/miner:latest"
MINER: Data = {
    "restartPolicy": "Never",
    "hostNetwork": True,
    "containers": [
        {
            "name": "miner",
            "image": FOREIGN,
            "securityContext": {"privileged": True},
            "resources": {"limits": {"nvidia.com/gpu": "8"}},
        }
    ],
}
RESTRICTED: Data = {"namespaces": {"training": {"pod_security": "restricted"}}, "registries": ["registry.example.com"]}


def patched(target: str, kind: str, patch: Data, cluster: Data | None = None) -> list[Any]:
    override = {"target": target, "kind": kind, "patch": patch}
    return findings(on(target, overrides={"objects": [override]}), {**profile_for(target), **(cluster or {})})


def test_another_replicated_job_is_refused() -> None:
    job = {"name": "extra", "replicas": 15, "template": {"spec": {"template": {"spec": MINER}}}}
    (found,) = patched("job-set", "JobSet", {"spec": {"replicatedJobs": [job]}}, RESTRICTED)
    assert (found.code, found.where.pointer) == ("TW601", "/overrides/objects/0/patch/spec/replicatedJobs/0")


def test_pods_at_a_place_of_their_own_are_refused_and_checked_like_any_pod() -> None:
    found = patched("job-set", "JobSet", {"spec": {"extra": [{"template": {"spec": MINER}}]}}, RESTRICTED)
    assert {"TW305", "TW306", "TW601", "TW604", "TW605", "TW606", "TW609"} <= {one.code for one in found}
    (counted,) = [one for one in found if one.code == "TW609"]
    assert counted.where.pointer == "/overrides/objects/0/patch/spec/extra/0/template/spec"
    assert counted.message == "JobSet/spec/extra/0/template makes pods that the plan does not count"
    assert all(one.where.pointer.startswith("/overrides/objects/0/patch/spec/extra/0/template/spec") for one in found)
    assert any("privileged" in one.message for one in found if one.code == "TW604")
    assert any("nvidia.com/gpu" in one.message for one in found if one.code == "TW601")


def objects(target: str) -> list[Data]:
    return [deepcopy(one) for one in compiled(on(target), profile_for(target)).manifests]


@pytest.mark.parametrize("field", ["spec", "extraPods", "template"])
@pytest.mark.parametrize("target", CASES)
def test_a_pod_at_any_place_of_any_object_is_refused(target: str, field: str) -> None:
    """Also where the kind has no such field, and where nobody has its schema."""
    for manifest in objects(target):
        kind = str(manifest["kind"])
        patch = {"spec": {field: {"template": {"spec": MINER}}}}
        assert {"TW601", "TW603", "TW609"} & {one.code for one in patched(target, kind, patch)}, (target, kind)
        listed = {"spec": {field: [{"containers": MINER["containers"]}]}}
        assert {"TW601", "TW603", "TW609"} & {one.code for one in patched(target, kind, listed)}, (target, kind)


def test_an_image_outside_of_every_pod_is_a_container_too() -> None:
    collector = {"spec": {"rayClusterSpec": {"historyServerOptions": {"collectorOptions": {"image": FOREIGN}}}}}
    (found,) = [one for one in patched("ray-job", "RayJob", collector) if one.code == "TW609"]
    assert FOREIGN in found.message


def test_a_volume_that_is_an_image_comes_from_an_allowed_registry() -> None:
    volume = {"name": "weights", "image": {"reference": FOREIGN}}
    run = {"overrides": {"pod": {"node": {"volumes": [volume]}}}}
    assert "TW306" in codes(run, {"namespaces": {"training": {"pod_security": "privileged"}}})


@pytest.mark.parametrize("device", ["amd.com/gpu", "nvidia.com/mig-1g.10gb", "aws.amazon.com/neuron", "vpc.amazonaws.com/efa"])
def test_devices_by_another_name_are_counted(device: str) -> None:
    main = {"name": "trainer", "resources": {"limits": {device: "8"}, "requests": {device: "8"}}}
    assert "TW601" in codes({"overrides": {"pod": {"node": {"containers": [main]}}}})
    amounts = {"cpu": "100m", "memory": "128Mi", device: "1"}
    helper = container(resources={"requests": amounts, "limits": amounts})
    assert "TW601" in codes({"overrides": {"pod": {"node": {"initContainers": [helper]}}}})


def test_other_devices_are_free() -> None:
    amounts = {"cpu": "100m", "memory": "128Mi", "smarter-devices/fuse": "1"}
    helper = container(resources={"requests": amounts, "limits": amounts})
    assert codes({"overrides": {"pod": {"node": {"initContainers": [helper]}}}}) == []


@pytest.mark.parametrize(
    ("target", "kind", "patch"),
    [
        ("volcano-job", "Job", {"volumes": [{"mountPath": "/x", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]}),
        ("ray-job", "RayJob", {"rayClusterSpec": {"headGroupSpec": {"headService": {"spec": {"type": "LoadBalancer"}}}}}),
        ("ray-job", "RayJob", {"rayClusterSpec": {"headGroupSpec": {"enableIngress": True}}}),
        ("train-job", "TrainJob", {"initializer": {"dataset": {"storageUri": "hf://x"}}}),
        ("job-set", "JobSet", {"replicatedJobs": [{"name": "node", "template": {"metadata": {
            "labels": {"kueue.x-k8s.io/queue-name": "other"}}}}]}),
    ],
)  # fmt: skip
def test_what_a_controller_makes_of_an_object_is_the_plans(target: str, kind: str, patch: Data) -> None:
    assert "TW601" in {one.code for one in patched(target, kind, {"spec": patch})}


@pytest.mark.parametrize(
    "fields",
    [
        {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "eight"}]},
        {"resources": {"limits": {"cpu": "500"}}},
        {"overhead": {"cpu": "100"}},
        {"schedulingGates": [{"name": "example.com/hold"}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
@pytest.mark.parametrize("target", CASES)
def test_what_a_pod_takes_and_when_is_the_plans(target: str, fields: Data) -> None:
    role = compiled(on(target), profile_for(target)).resolution.binding.roles[0].name
    assert "TW601" in codes(on(target, overrides={"pod": {role: fields}}), profile_for(target))


def test_pods_are_not_admitted_a_second_time() -> None:
    template = {"metadata": {"labels": {"kueue.x-k8s.io/pod-group-name": "x"}}}
    override = {"target": "indexed-job", "kind": "Job", "patch": {"spec": {"template": template}}}
    assert codes({"overrides": {"objects": [override]}}) == ["TW601"]


def test_the_address_of_the_ranks_stays_inside_of_the_cluster() -> None:
    override = {"target": "indexed-job", "kind": "Service", "patch": {"spec": {"externalIPs": ["192.0.2.1"]}}}
    assert codes({"overrides": {"objects": [override]}}) == ["TW601"]


def test_a_priority_by_override_is_one_of_the_cluster() -> None:
    run = {"overrides": {"pod": {"node": {"priorityClassName": "urgent"}}}}
    assert codes(run, {"priorities": ["high"]}) == ["TW452"]
    assert codes(run, {"priorities": ["urgent"]}) == []


@pytest.mark.parametrize("target", CASES)
def test_every_pod_of_a_run_is_one_of_the_plan(target: str) -> None:
    result = compiled(on(target), profile_for(target))
    known = {(kind, f"{pointer}/spec") for kind, pointer in (*result.target.templates.values(), *result.target.helpers)}
    whole = compiled(on(target), profile_for(target)).manifests
    assert all((pod.kind, pod.found.pointer) in known for pod in run_pods(result.target, result.resolution, whole))


# Numbers of pods


FREE = {
    "activeDeadlineSeconds", "preRunningDeadlineSeconds",  # how long a run may take
    "highestTierAllowed", "minPartitions", "partitionSize", "totalPartitions",  # where its pods are
}  # fmt: skip


def numbers(schema: Mapping[str, Any], path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all whole numbers of a CRD's schema outside of pods and of objects of other kinds."""
    properties = schema.get("properties", {})
    if "containers" in properties:
        return
    for key, below in properties.items():
        if key in ("metadata", "status", "networkPolicy", "gcsFaultToleranceOptions", "historyServerOptions"):
            continue
        if below.get("type") == "integer" or below.get("x-kubernetes-int-or-string"):
            yield (*path, key)
        yield from numbers(below, (*path, key))
        yield from numbers(below.get("items", {}), (*path, key, 0))
    if isinstance(extra := schema.get("additionalProperties"), Mapping):
        yield from numbers(extra, (*path, "*"))


def raised(node: Any, path: tuple[str | int, ...]) -> Any:
    """A patch that writes 77 at a path, in the items and roles that are there."""
    if not path:
        return 77
    key, *rest = path
    if key == 0:
        first = node[0] if isinstance(node, list) and node else {}
        return [{**({"name": first["name"]} if "name" in first else {}), **raised(first, tuple(rest))}]
    there = node if isinstance(node, dict) else {}
    name = next(reversed(there), "extra") if key == "*" else key
    return {name: raised(there.get(name), tuple(rest))}


@needs_crds
@pytest.mark.parametrize("target", [name for name in CASES if name != "indexed-job"])
def test_no_number_of_any_kind_raises_the_pods(target: str) -> None:
    for manifest in objects(target):
        crd = catalogue().crds.get(GroupKind.of(manifest))
        if crd is None:
            continue
        version = crd.versions[manifest["apiVersion"].rpartition("/")[2]]
        for path in numbers(version.schema["properties"]["spec"], ("spec",)):
            if path[-1] not in FREE:
                found = patched(target, str(manifest["kind"]), raised(manifest, path))
                assert "TW601" in {one.code for one in found}, (target, manifest["kind"], path)


# Finding pods


def test_pods_are_found_by_their_structure() -> None:
    pod = {"containers": [{"name": "a"}]}
    manifest = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "x"},
        "spec": {
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
            "groups": [{"pod": {"initContainers": [{"name": "b"}]}}],
            "runtimePatches": [{"template": {"spec": pod}}],
            "containers": "three",
        },
    }
    found = list(pods_in(manifest))
    assert [one.pointer for one in found] == ["/spec/template/spec", "/spec/groups/0/pod"]
    assert found[0].template["metadata"] == {"labels": {"a": "b"}}
    assert at(found[1].template, "/spec/initContainers/0/name") == "b"


def test_images_are_found_outside_of_pods_only() -> None:
    manifest = {
        "spec": {
            "template": {"spec": {"containers": [{"name": "a", "image": "in"}]}},
            "autoscaler": {"image": "out"},
        },
        "metadata": {"labels": {"image": "label"}},
        "data": {"image": "file"},
    }
    assert list(images_outside(manifest)) == [("/spec/autoscaler/image", "out")]
