"""What the controllers' folders say against what the real controllers made of the same manifests, field by field.

A recording is a folder: ``manifest.yaml`` was applied, ``made.json`` stood in the namespace afterwards, without statuses, uids of
owners, times, and values of Secrets. Kubernetes 1.36 and the operators of November 2026, two of them with ``volcano`` as the
value of their flag for gangs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.objects import catalogue, needs_crds

from trainwright.manifest.kinds import GroupKind
from trainwright.objects.stored import admit_pod
from trainwright.operators.operator import SUFFIX, Around, defaults, makes_pods, pods
from trainwright.validate.admission import admitted

Data = dict[str, Any]

RECORDED = os.environ.get("TRAINWRIGHT_RECORDED")
RUNS = sorted(path.parent.name for path in Path(RECORDED).glob("*/made.json")) if RECORDED else []

PRIORITIES = {"training-high": 1000, "preemptible": 1000}
"""The PriorityClasses of that cluster."""
INIT_CONTAINER = {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
"""What the Training Operator's template for it said there."""

NOT_KNOWN: Mapping[str, tuple[str, ...]] = {
    "the scheduler chooses the node": ("Pod /spec/nodeName",),
    "the operator's release, and a hash over the serialized Go value of the cluster's spec": (
        "Pod /metadata/annotations/ray.io~1kuberay-version", "Pod /metadata/annotations/ray.io~1upgrade-strategy-recreate-hash",
    ),
    "an empty Go struct, as the operator's client serializes it": ("RayCluster /spec/workerGroupSpecs/0/scaleStrategy",),
}  # fmt: skip
"""Reason -> kind and field that nothing here says."""
IN_ANY_ORDER: Mapping[str, Callable[[Data], bool]] = {
    "env": lambda pod: "volcano.sh/job-name" in pod["metadata"]["labels"],  # plugins come out of a map
    "ports": lambda service: "training.kubeflow.org/job-name" in service["metadata"].get("labels", {}),  # so do ports
}
"""Lists that a controller fills in the order of a Go map, which is another one each time."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RANDOM = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])")
"""The end of a generated name (k8s.io/apimachinery/pkg/util/rand)."""


@needs_crds
@pytest.mark.skipif(not RECORDED, reason="TRAINWRIGHT_RECORDED names no folder of what real controllers made")
@pytest.mark.parametrize("run", RUNS)
def test_as_recorded(run: str) -> None:
    folder = Path(RECORDED or "") / run
    recording = json.loads((folder / "made.json").read_text())
    applied = [one for one in yaml.safe_load_all((folder / "manifest.yaml").read_text()) if one]
    for manifest in applied:
        manifest["metadata"]["namespace"] = recording["namespace"]
    expected = comparable(stored(one) for one in made(applied))
    found = comparable(without_what_nothing_says(one) for one in recording["made"])
    assert [name for name, _ in expected] == [name for name, _ in found]
    assert not [
        f"{name}{pointer}: {ours!r} here, {theirs!r} recorded"
        for (name, one), (_, other) in zip(expected, found, strict=True)
        for pointer, ours, theirs in differences(one, other)
    ]


def differences(ours: object, theirs: object, pointer: str = "") -> Iterator[tuple[str, object, object]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(key), theirs.get(key), f"{pointer}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(*pair, f"{pointer}/{index}")
    elif ours != theirs:
        yield pointer, ours, theirs


def made(applied: list[Data]) -> Iterator[Data]:
    around = Around(
        objects=applied,
        gangs={"training-operator": "volcano", "mpi-operator": "volcano"},
        init_container=INIT_CONTAINER,
        priorities=PRIORITIES,
    )
    for manifest in applied:
        if makes_pods(manifest):
            result = pods(manifest, around)
            yield from (pod.manifest for pod in result.pods)
            yield from result.objects


def stored(manifest: Data) -> Data:
    """After the API server, with its CRDs, and what is not recorded of it taken out."""
    crd = catalogue().crds.get(GroupKind.of(manifest))
    if crd:
        manifest = admitted(manifest, crd.versions[manifest["apiVersion"].rpartition("/")[2]].schema)
    result = defaults(manifest)
    if result["kind"] == "Pod":
        admit_pod(result["spec"], PRIORITIES)
    for owner in result["metadata"].get("ownerReferences", ()):
        del owner["uid"]
    if "runtime" in result.get("data", {}):
        result["data"]["runtime"] = runtime_of(result["data"]["runtime"])
    return result


def runtime_of(text: str) -> Data:
    """A snapshot of a runtime, without what the API server keeps about it."""
    runtime: Data = yaml.safe_load(text)
    metadata = {key: runtime["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    crd = catalogue().crds[GroupKind.of(runtime)]
    whole: Data = without_empty(admitted({**runtime, "metadata": metadata}, crd.versions["v1alpha1"].schema))
    return whole


def without_empty(value: Any) -> Any:
    """An empty Go struct is written, and nobody has stated it."""
    if isinstance(value, dict):
        return {key: without_empty(item) for key, item in value.items() if item != {}}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def without_what_nothing_says(manifest: Data) -> Data:
    for pointers in NOT_KNOWN.values():
        for pointer in pointers:
            kind, *path = pointer.replace(" ", "").split("/")
            if kind == manifest["kind"]:
                remove(manifest, [part.replace("~1", "/") for part in path])
    if "runtime" in manifest.get("data", {}):
        manifest["data"]["runtime"] = runtime_of(manifest["data"]["runtime"])
    return manifest


def remove(owner: Any, path: list[str]) -> None:
    *above, last = path
    for part in above:
        owner = owner[int(part)] if isinstance(owner, list) else owner.get(part, {})
    owner.pop(last, None)


def comparable(manifests: Iterator[Data]) -> list[tuple[str, Data]]:
    """By kind and name; random ends of names and uids are all the same."""
    named = []
    for manifest in manifests:
        plain = json.loads(_RANDOM.sub(f"-{SUFFIX}", _UUID.sub("UID", json.dumps(sorted_lists(manifest), sort_keys=True))))
        named.append((f"{plain['kind']} {plain['metadata']['name']}", plain))
    return sorted(named, key=lambda pair: (pair[0], json.dumps(pair[1]["metadata"].get("labels"))))


def sorted_lists(manifest: Data) -> Data:
    if manifest["kind"] == "Pod" and IN_ANY_ORDER["env"](manifest):
        for container in manifest["spec"]["containers"]:
            container["env"].sort(key=lambda one: one["name"])
    if manifest["kind"] == "Service" and IN_ANY_ORDER["ports"](manifest):
        manifest["spec"]["ports"].sort(key=lambda one: one["name"])
    return manifest
