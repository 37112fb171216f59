"""Custom resources without their CRDs: what the names of the operators' fields and Kubernetes' own schemas still find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.validate.samples import (
    ROOT,
    SAMPLES,
    UPSTREAM,
    Data,
    names,
    pointers,
    problems,
    put,
    sample,
    schema_at,
    schema_of,
    upstream,
)

from trainwright.findings.locate import at, escape
from trainwright.manifest.pods import pods_in
from trainwright.validate import Catalogue, CheckedBy, object_problems, validate_files
from trainwright.validate.admission import TYPE_META, unknown_fields
from trainwright.validate.core_schemas import known_version
from trainwright.validate.crd import Schema
from trainwright.validate.fetch import PINS, read_pins
from trainwright.validate.field_names import TABLE, named

NONE = Catalogue()
MANIFESTS = os.environ.get("TRAINWRIGHT_MANIFESTS")
CUSTOM = names(custom=True)
CATALOGUES = [NONE, upstream()] if UPSTREAM else [NONE]
needs_crds = pytest.mark.skipif(not UPSTREAM, reason="TRAINWRIGHT_CRDS names no folder of CRDs; `trainwright crds` fetches them")


def schema_by_name(manifest: Data) -> Schema:
    known = named(manifest["apiVersion"], manifest["kind"])
    assert known is not None
    return known.schema


# The table


@needs_crds
def test_the_table_is_what_the_pinned_crds_say() -> None:
    command = [sys.executable, "tools/field_names.py", str(UPSTREAM)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == TABLE.read_text(encoding="utf-8")


def test_the_table_names_the_releases_that_it_is_from() -> None:
    releases = {pin.release for pin in read_pins(PINS)}
    assert set(json.loads(TABLE.read_bytes())["kinds"]) == releases
    assert all("/" in release and " " in release for release in releases), "a repository and a version"


def test_the_table_is_small() -> None:
    assert TABLE.stat().st_size < 40_000


def test_all_of_dist_and_all_samples_are_in_order_by_name() -> None:
    report = validate_files([ROOT / "dist", SAMPLES], None)
    assert {finding.code for finding in report.findings} == {"TW702"}
    assert report.unchecked == {}
    assert sum(report.by_name.values()) > 40


def closed(schema: Schema | None) -> bool:
    """Whether a mapping takes only fields that have a name."""
    return schema is not None and bool(schema.get("properties")) and not {"additionalProperties", PRESERVES} & schema.keys()


PRESERVES = "x-kubernetes-preserve-unknown-fields"


def misspelt(name: str) -> Iterator[tuple[str, str, Data]]:
    """A sample with a field misspelt, for each field of a mapping that takes known ones only: place, field, object."""
    manifest = sample(name)
    schema = schema_by_name(manifest)
    for place in pointers(manifest):
        fields = at(manifest, place)
        if isinstance(fields, dict) and closed(schema_at(schema, place)):
            for key in fields.keys() - (set() if place else TYPE_META):
                spoilt = sample(name)
                owner = at(spoilt, place)
                owner[f"{key}{key[-1]}"] = owner.pop(key)
                yield f"{place}/{escape(key)}{key[-1]}", key, spoilt


@pytest.mark.parametrize("name", CUSTOM)
def test_a_misspelt_field_is_found_at_every_level_of_every_kind(name: str) -> None:
    depths = set()
    for place, meant, spoilt in misspelt(name):
        (found,) = [problem for problem in unknown_fields(spoilt, schema_by_name(spoilt)) if problem.code == "TW703"]
        assert (found.pointer, found.fix) == (place, f"did you mean `{meant}`?")
        depths.add(place.count("/"))
    assert {1, 2} <= depths


@needs_crds
@pytest.mark.parametrize("name", CUSTOM)
def test_names_say_what_the_crd_says(name: str) -> None:
    crd, by_name = schema_of(sample(name)), schema_by_name(sample(name))
    for place, _, spoilt in misspelt(name):
        said = [(it.pointer, it.message) for it in unknown_fields(spoilt, by_name)]
        assert said == [(it.pointer, it.message) for it in unknown_fields(spoilt, crd)], place


@pytest.mark.skipif(not MANIFESTS, reason="TRAINWRIGHT_MANIFESTS names no folder of public manifests")
def test_public_manifests_have_no_field_that_is_not_known() -> None:
    report = validate_files([Path(str(MANIFESTS))], None)
    assert [finding for finding in report.findings if finding.code == "TW703"] == []
    assert report.unchecked == {}
    assert sum(report.by_name.values()) > 20


def test_a_finding_names_the_release_that_has_no_such_field() -> None:
    job = sample("PyTorchJob")
    put(job, "/spec/runPolicy", {"backofLimit": 3})
    (problem,) = problems(job, NONE)
    assert (problem.pointer, problem.fix) == ("/spec/runPolicy/backofLimit", "did you mean `backoffLimit`?")
    assert problem.message == "/spec/runPolicy has no field `backofLimit` (kubeflow/trainer v1.9.4)"


@needs_crds
def test_crds_that_are_given_decide() -> None:
    job = sample("PyTorchJob")
    put(job, "/spec/runPolicy", {"backofLimit": 3})
    (problem,) = problems(job)
    assert problem.message == "/spec/runPolicy has no field `backofLimit`"
    assert object_problems(job, upstream(), known_version(None))[1] is CheckedBy.SCHEMA


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("TrainJob", "/spec/podTemplateOverrides"), ("TrainJob", "/spec/labels"), ("RayJob", "/spec/deletionPolicy"),
        ("TrainingRuntime", "/spec/mlPolicy/torch"),
    ],
)  # fmt: skip
def test_fields_of_earlier_releases_are_known(name: str, place: str) -> None:
    """Of those releases that a profile may name: Trainer 2.1, KubeRay 1.3."""
    job = sample(name)
    put(job, place, {"numProcPerNode": 8} if name == "TrainingRuntime" else [{"anything": {"goes": 1}}])
    assert [problem for problem in problems(job, NONE) if problem.code == "TW703"] == []


def test_a_kind_or_version_that_is_not_in_the_table_is_not_validated() -> None:
    assert named("jobset.x-k8s.io/v9", "JobSet") is None
    assert named("example.com/v1", "Widget") is None
    manifest: Data = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"any": 1}}
    assert object_problems(manifest, NONE, known_version(None)) == ([], CheckedBy.NOTHING)
    found, _ = object_problems({**manifest, "apiVersion": "jobset.x-k8s.io/v9", "kind": "JobSet"}, NONE, known_version(None))
    assert [(problem.code, problem.pointer) for problem in found] == [("TW701", "/apiVersion")]


# What Kubernetes' own schemas say of the pods and Jobs in it


@pytest.mark.parametrize("catalogue", CATALOGUES)
@pytest.mark.parametrize("name", CUSTOM)
def test_a_pods_choices_are_checked_in_every_kind(name: str, catalogue: Catalogue) -> None:
    for pod in pods_in(sample(name)):
        for field, value, meant in (("restartPolicy", "OnFailur", "OnFailure"), ("dnsPolicy", "Defaul", "Default")):
            spoilt = sample(name)
            put(spoilt, f"{pod.pointer}/{field}", value)
            (problem,) = problems(spoilt, catalogue)
            assert (problem.code, problem.pointer) == ("TW705", f"{pod.pointer}/{field}")
            assert problem.message == f'{pod.pointer}/{field} cannot be "{value}"'
            assert problem.fix.startswith(f"did you mean {meant}?")


JOB = "/spec/replicatedJobs/1/template/spec"


@pytest.mark.parametrize("catalogue", CATALOGUES)
@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("JobSet", "/spec/replicatedJobs/0/template/spec/completionMode", "Indexd"), ("JobSet", f"{JOB}/backoffLimit", -1),
        ("JobSet", f"{JOB}/template/spec/containers/0/imagePullPolicy", "Alway"),
        ("TrainingRuntime", "/spec/template/spec/replicatedJobs/0/template/spec/podReplacementPolicy", "Faild"),
        ("RayJob", "/spec/rayClusterSpec/headGroupSpec/template/spec/containers/0/terminationMessagePolicy", "Log"),
        ("PyTorchJob", "/spec/pytorchReplicaSpecs/Worker/restartPolicy", "OnFailur"),
    ],
)  # fmt: skip
def test_a_value_that_kubernetes_refuses_is_found_once(name: str, place: str, value: Any, catalogue: Catalogue) -> None:
    spoilt = sample(name)
    put(spoilt, place, value)
    assert [problem.pointer for problem in problems(spoilt, catalogue)] == [place]


def test_what_holds_containers_may_be_more_than_a_pod() -> None:
    """A Prometheus has containers to be merged into its pods, beside fields of its own."""
    spec = {"containers": [{"name": "prometheus"}], "retention": "7d", "serviceMonitorSelector": {}}
    manifest: Data = {"apiVersion": "monitoring.example.com/v1", "kind": "Prometheus", "metadata": {"name": "x"}, "spec": spec}
    assert problems(manifest, NONE) == []
    put(manifest, "/spec/containers/0/imagePullPolicy", "Alway")
    assert [problem.code for problem in problems(manifest, NONE)] == ["TW705"]


# All in one round


@pytest.mark.parametrize("catalogue", CATALOGUES)
def test_schema_pods_and_operator_are_told_at_once(catalogue: Catalogue) -> None:
    job = sample("PyTorchJob")
    specs = "/spec/pytorchReplicaSpecs"
    put(job, "/spec/runPolicy", {"backofLimit": 3})
    put(job, "/metadata/labels", {"app": "two words"})
    put(job, f"{specs}/Master/replicas", 2)
    put(job, f"{specs}/Worker/template/spec/restartPolicy", "OnFailur")
    put(job, f"{specs}/Worker/template/spec/containers/0/volumeMounts", [{"name": "gone", "mountPath": "/data"}])
    assert {(problem.code, problem.pointer) for problem in problems(job, catalogue)} == {
        ("TW703", "/spec/runPolicy/backofLimit"),
        ("TW705", "/metadata/labels/app"),
        ("TW711", f"{specs}/Master/replicas"),
        ("TW705", f"{specs}/Worker/template/spec/restartPolicy"),
        ("TW705", f"{specs}/Worker/template/spec/containers/0/volumeMounts/0/name"),
    }


def test_a_job_is_told_all_at_once_too() -> None:
    job = sample("Job batch/v1")
    put(job, "/spec/backofLimit", 3)
    put(job, "/spec/template/spec/containers/0/volumeMounts/0/name", "gone")
    assert {problem.code for problem in problems(job, NONE)} == {"TW703", "TW705"}


def test_what_follows_from_a_wrong_value_is_not_told_again() -> None:
    job = sample("Job batch/v1")
    put(job, "/spec/template/spec/restartPolicy", "OnFailur")
    assert [problem.fix for problem in problems(job, NONE)] == ["did you mean OnFailure? Allowed: Never, OnFailure"]


def test_the_table_is_read_only_where_it_is_needed(tmp_path: Path) -> None:
    """Commands that validate no custom resource do not pay for it."""
    (tmp_path / "map.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from trainwright.validate import validate_files, field_names\n"
        "validate_files([Path(sys.argv[1])], None); print(field_names._table.cache_info().currsize)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ended.stdout == "0\n"
