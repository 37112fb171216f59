"""CustomResourceDefinitions as files have them: which are read, which are refused, and how long it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.validate.samples import PROJECT, UPSTREAM, problems, upstream

from trainwright.manifest.kinds import GroupKind
from trainwright.reading.document import read_yaml
from trainwright.validate import load_catalogue
from trainwright.validate.crd import Catalogue

WIDGET = GroupKind("example.com", "Widget")
WIDGETS = PROJECT / "crds" / "widgets.yaml"


def loaded(tmp_path: Path, *texts: str, groups: tuple[str, ...] | None = None) -> Catalogue:
    for index, text in enumerate(texts):
        (tmp_path / f"{index}.yaml").write_text(text, encoding="utf-8")
    return load_catalogue(tmp_path, groups)


def widgets(**spec: Any) -> dict[str, Any]:
    data = read_yaml(WIDGETS).data
    data["spec"] |= spec
    return data


def test_a_crd_says_its_kinds_versions_and_scope() -> None:
    crd = load_catalogue(WIDGETS.parent).crds[WIDGET]
    assert (crd.name, crd.namespaced, crd.file) == ("widgets.example.com", True, str(WIDGETS))
    assert {name: version.served for name, version in crd.versions.items()} == {"v1": True, "v1alpha1": False}


@pytest.mark.parametrize("shape", ["documents", "list", "json", "deep folder"])
def test_crds_are_found_in_any_file(tmp_path: Path, shape: str) -> None:
    text = json.dumps(widgets())
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [widgets()]})
    path = {"documents": "a.yaml", "list": "b.yaml", "json": "c.json", "deep folder": "d/e/f.yml"}[shape]
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text({"documents": f"# a comment\n---\nkind: Other\n---\n{text}\n", "list": listed}.get(shape, text))
    catalogue = load_catalogue(tmp_path)
    assert (list(catalogue.crds), catalogue.findings) == ([WIDGET], ())


def test_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    """PyYAML's own rules would make false of off, and an error of =, which is an operator in Prometheus' enums."""
    text = WIDGETS.read_text().replace("enum: [red, blue]", "enum: [off, =, '1', 1, 1e3, 9223372036854775807]")
    version = loaded(tmp_path, text).crds[WIDGET].versions["v1"]
    assert version.schema["properties"]["spec"]["properties"]["color"]["enum"] == ["off", "=", "1", 1, 1000.0, 2**63 - 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: CustomResourceDefinition\napiVersion: [", "is not YAML"),
        ("kind: CustomResourceDefinition\napiVersion: !!python/object:x y", "is not YAML"),
        (json.dumps({**widgets(), "apiVersion": "apiextensions.k8s.io/v1beta1"}), "cannot be used"),
        (json.dumps({**widgets(), "spec": {}}), "is not complete"),
        (json.dumps(widgets(versions=[{"name": "v1", "served": True, "schema": {}}])), "is not complete"),
        (json.dumps(widgets(versions=[{"name": "v1", "served": True, "schema": {"openAPIV3Schema": "x"}}])), "is not complete"),
        (json.dumps({**widgets(), "metadata": None}), "is not complete"),
        *(
            (json.dumps(widgets(versions=[{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}])), message)
            for schema, message in (
                ({"properties": []}, "properties is not a mapping"),
                ({"properties": {"a": {"required": "b"}}}, "required is not a list"),
                ({"items": [{}]}, "items is not a schema"),
                ({"allOf": [{"maxLength": "3"}]}, "maxLength is not a number"),
                ({"x-kubernetes-validations": [{"message": "x"}]}, "is not complete"),
                ({"additionalProperties": {"type": 5}}, "type is not text"),
            )
        ),
    ],
)
def test_a_crd_that_cannot_be_used_is_a_finding(tmp_path: Path, text: str, message: str) -> None:
    catalogue = loaded(tmp_path, text)
    assert catalogue.crds == {}
    assert [(finding.code, message in finding.message) for finding in catalogue.findings] == [("TW710", True)]
    assert catalogue.findings[0].where.file == str(tmp_path / "0.yaml")


def test_a_file_that_is_no_text_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff")
    assert [finding.code for finding in load_catalogue(tmp_path).findings] == ["TW710"]


def test_two_definitions_of_one_kind_are_a_finding_where_they_differ(tmp_path: Path) -> None:
    assert loaded(tmp_path, json.dumps(widgets()), json.dumps(widgets())).findings == ()
    (finding,) = loaded(tmp_path, json.dumps(widgets()), json.dumps(widgets(versions=widgets()["spec"]["versions"][:1]))).findings
    assert (finding.code, "0.yaml" in finding.message) == ("TW710", True)


def test_only_the_groups_that_are_needed_are_read(tmp_path: Path) -> None:
    broken = "kind: CustomResourceDefinition\nspec: {group: other.example.org\n"
    assert loaded(tmp_path, json.dumps(widgets()), broken, groups=("example.com",)).findings == ()
    assert loaded(tmp_path, groups=()).crds == {}


def test_an_object_is_held_against_the_version_that_it_names(tmp_path: Path) -> None:
    catalogue = loaded(tmp_path, WIDGETS.read_text())
    data: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 3}}
    assert problems(data, catalogue) == []
    assert [it.code for it in problems({**data, "spec": {"size": 3, "minimum": 4}}, catalogue)] == ["TW707"]
    assert [it.code for it in problems({**data, "spec": {}}, catalogue)] == ["TW704"], "no rule is evaluated after that"
    for version, words in (("v1alpha1", "is not served in version v1alpha1"), ("v2", "has no version v2")):
        (problem,) = problems({**data, "apiVersion": f"example.com/{version}"}, catalogue)
        assert (problem.code, words in problem.message, problem.fix) == ("TW701", True, "write example.com/v1")


def test_status_is_dropped_where_it_is_a_subresource(tmp_path: Path) -> None:
    versions = widgets()["spec"]["versions"][:1]
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["status"] = {"type": "object", "required": ["phase"], "properties": {}}
    data: dict[str, Any] = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "one"},
        "spec": {"size": 3},
        "status": {},
    }
    assert [it.code for it in problems(data, loaded(tmp_path, json.dumps(widgets(versions=versions))))] == ["TW704"]
    versions[0]["subresources"] = {"status": {}}
    assert problems(data, loaded(tmp_path, json.dumps(widgets(versions=versions)))) == []


def test_metadata_is_that_of_every_object(tmp_path: Path) -> None:
    catalogue = loaded(tmp_path, WIDGETS.read_text())
    data = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 3}}
    cases: list[tuple[dict[str, Any], tuple[str, str]]] = [
        ({"name": "one", "labels": {"a": 1}}, ("TW705", "/metadata/labels/a")),
        ({"name": "one", "nmae": "x"}, ("TW703", "/metadata/nmae")),
        ({"name": "one", "ownerReferences": [{"name": "x"}]}, ("TW704", "/metadata/ownerReferences/0/apiVersion")),
        ({"name": "One"}, ("TW709", "/metadata/name")),
    ]
    for metadata, expected in cases:
        assert expected in {(it.code, it.pointer) for it in problems({**data, "metadata": metadata}, catalogue)}


if UPSTREAM:

    def test_the_upstream_crds_are_all_read() -> None:
        assert upstream().findings == ()
        assert len(upstream().crds) == 27
        assert {("kubeflow.org", "MPIJob"), ("jobset.x-k8s.io", "JobSet"), ("ray.io", "RayJob")} <= upstream().crds.keys()
