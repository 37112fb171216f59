"""Kubernetes' own kinds: which they are, in which versions, and by which schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.validate.samples import Data, names, pointers, problems, put, sample

from trainwright.rules.cluster.profile import KNOWN_KUBERNETES
from trainwright.validate import Catalogue
from trainwright.validate.core import core_problems, is_core
from trainwright.validate.core_schemas import (
    CHOICES,
    NOT_EMPTY,
    PATTERNS,
    RANGES,
    UnknownVersionError,
    definitions,
    known_version,
    schema_of,
    versions,
)

NONE = Catalogue()


def test_versions() -> None:
    assert known_version(None) == versions()[-1]
    assert known_version("1.34") == known_version("v1.34.2") == "1.34"
    assert set(versions()) >= {f"1.{minor}" for minor in KNOWN_KUBERNETES}
    for version in ("1.3", "1.999", "latest", "", "2"):
        with pytest.raises(UnknownVersionError, match=versions()[0]):
            known_version(version)


@pytest.mark.parametrize(
    ("api_version", "own"),
    [
        ("v1", True), ("batch/v1", True), ("networking.k8s.io/v1", True), ("rbac.authorization.k8s.io/v1", True),
        ("scheduling.k8s.io/v1", True), ("scheduling.x-k8s.io/v1alpha1", False), ("batch.volcano.sh/v1alpha1", False),
        ("snapshot.storage.k8s.io/v1", False), ("kueue.x-k8s.io/v1beta2", False), ("kubeflow.org/v1", False),
    ],
)  # fmt: skip
def test_groups_of_kubernetes_itself(api_version: str, own: bool) -> None:
    assert is_core(api_version) == own


def test_a_kind_that_a_version_does_not_have() -> None:
    old: Data = {"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": {}}
    assert [it.code for it in problems(old, NONE)] == ["TW701"]
    for kind in ("Jobs", "job", "../job", ""):
        assert [it.code for it in problems({**old, "apiVersion": "batch/v1", "kind": kind}, NONE)] == ["TW701"], kind


def test_a_kind_is_that_of_its_whole_group() -> None:
    """The schema's file is named by the first part of the group: scheduling.x-k8s.io is not scheduling.k8s.io."""
    gang: Data = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "a"}, "spec": {}}
    assert problems(gang, NONE) == []
    assert [it.code for it in problems({**gang, "apiVersion": "scheduling.k8s.io/v1beta9"}, NONE)] == ["TW701"]


def test_a_field_comes_with_its_version() -> None:
    job = sample("Job batch/v1")
    job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    assert [it.code for it in core_problems(job, "1.29")] == ["TW703"]
    assert core_problems(job, "1.34") == []


def test_all_problems_of_an_object_are_told() -> None:
    job = sample("Job batch/v1")
    put(job, "/spec/completions", "2")
    put(job, "/spec/template/spec/containers/0/imagePullPolicy", "Now")
    put(job, "/spec/extra", 1)
    put(job, "/metadata/extra", 1)
    expected = {"/spec/extra", "/metadata/extra", "/spec/completions", "/spec/template/spec/containers/0/imagePullPolicy"}
    assert {it.pointer for it in problems(job, NONE)} == expected


def test_references_are_replaced_and_nothing_beside_them_is_lost() -> None:
    """A reference that has more than words beside it would lose that where a definition takes its place."""
    words = {"$ref", "description", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-patch-strategy"}
    package = find_spec("kubernetes_validate")
    assert package is not None
    for file in Path(str(package.origin)).parent.glob("kubernetes-json-schema/*-local-strict/_definitions.json"):
        known = json.loads(file.read_bytes())["$defs"]
        assert {key for node in mappings(known) if isinstance(node.get("$ref"), str) for key in node} <= words, file
        for name, _, field in (place.rpartition(".") for place in (*CHOICES, *PATTERNS, *RANGES, *NOT_EMPTY)):
            assert "$ref" not in known.get(name, {}).get("properties", {}).get(field, {}), (file, name, field)
    schema = schema_of("CustomResourceDefinition", "apiextensions.k8s.io/v1", known_version(None))  # it refers to itself
    assert [node for node in mappings(schema) if isinstance(node.get("$ref"), str)] == []


def mappings(root: Any) -> Iterator[Data]:
    """Every mapping in a value, each once."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict | list) and id(node) not in seen:
            seen.add(id(node))
            waiting += node.values() if isinstance(node, dict) else node
            if isinstance(node, dict):
                yield node


def test_the_facts_name_fields_that_there_are() -> None:
    known = definitions(known_version(None))
    for place in (*CHOICES, *PATTERNS, *RANGES, *NOT_EMPTY):
        name, _, field = place.rpartition(".")
        assert field in known[name]["properties"], place


@pytest.mark.parametrize(
    ("requests", "limits", "wrong"),
    [
        ({"cpu": "1"}, {"cpu": "1000m"}, False), ({"cpu": 2}, {"cpu": 1}, True), ({"memory": "1Gi"}, {"memory": "1G"}, True),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": "1"}, False), ({"nvidia.com/gpu": 1}, {}, True),
        ({}, {"nvidia.com/gpu": 1}, False), ({"cpu": "1"}, {}, False),
        ({"hugepages-2Mi": "1Gi", "cpu": 1}, {"hugepages-2Mi": "1Gi"}, False), ({}, {"hugepages-2Mi": "1Gi", "memory": 1}, False),
        ({"hugepages-2Mi": "1Gi"}, {"hugepages-2Mi": "1Gi"}, True), ({}, {"hugepages-2Mi": "5Mi", "cpu": 1}, True),
        ({}, {"hugepages-1Gi": "5121Mi", "cpu": 1}, True), ({"hugepages-2Mi": "2Mi", "cpu": 1}, {"hugepages-2Mi": "4Mi"}, True),
        ({"hugepages-2Mi": "2Mi", "cpu": 1}, {}, True),
    ],
)  # fmt: skip
def test_requests_and_limits(requests: Data, limits: Data, wrong: bool) -> None:
    job = sample("Job batch/v1")
    put(job, "/spec/template/spec/containers/0/resources", {"requests": requests, "limits": limits})
    assert bool(problems(job, NONE)) == wrong


def test_what_the_api_server_allows_is_no_problem() -> None:
    """Variables and container ports may be there twice, a volume without a source is an emptyDir."""
    job = sample("Job batch/v1")
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["env"].append({"name": "A", "value": "3"})
    container["ports"].append({"name": "again", "containerPort": 9400})
    job["spec"]["template"]["spec"]["volumes"].append({"name": "scratch"})
    job["spec"]["suspend"] = None
    assert problems(job, NONE) == []


def test_a_selector_must_find_its_pods() -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    deployment: Data = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    assert problems(deployment, NONE) == []
    put(deployment, "/spec/selector/matchLabels/app", "b")
    assert [it.pointer for it in problems(deployment, NONE)] == ["/spec/selector/matchLabels/app"]


def test_a_claim_asks_for_storage() -> None:
    claim: Data = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "a"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}},
    }
    assert problems(claim, NONE) == []
    put(claim, "/spec/resources", {})
    assert [it.code for it in problems(claim, NONE)] == ["TW704"]


@given(data=st.data(), name=st.sampled_from([*names(custom=False), *names(custom=True)]))
def test_an_object_of_any_shape_is_read(data: st.DataObject, name: str) -> None:
    spoilt = sample(name)
    junk: st.SearchStrategy[Any] = st.sampled_from(
        [None, 0, -1, 2**70, 1.5, True, "", "x", [], [None], ["x"], [[]], [{}], {}, {"name": 1}, {"x": {}}]
    )
    place = data.draw(st.sampled_from([it for it in pointers(spoilt) if it.startswith(("/spec", "/data", "/metadata/"))]))
    put(spoilt, place, data.draw(junk))
    for problem in problems(spoilt, NONE) if isinstance(spoilt["metadata"].get("name"), str) else ():
        assert problem.message
