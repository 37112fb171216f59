"""Claims that a JobSet makes are deleted with it, unless they say that they stay."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, findings
from tests.compiler.objects import catalogue, needs_crds

from trainwright.findings.locate import at
from trainwright.validate import object_problems
from trainwright.validate.claims import claims_that_go
from trainwright.validate.core_schemas import known_version


def job_set(name: str, path: str, retention: Data | None = None, at_init: bool = False) -> Data:
    mount = {"name": "a", "image": "a:1", "volumeMounts": [{"name": name, "mountPath": path}]}
    other = {"name": "b", "image": "b:1"}
    containers = {"initContainers": [mount], "containers": [other]} if at_init else {"containers": [mount]}
    pod = {"restartPolicy": "Never", **containers}
    size = {"requests": {"storage": "1Ti"}}
    claim = {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteMany"], "resources": size}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"},
        "spec": {
            "volumeClaimPolicies": [{"templates": [claim], **({"retentionPolicy": retention} if retention is not None else {})}],
            "replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}],
        },
    }  # fmt: skip


def runtime(kind: str, job_set: Data) -> Data:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "metadata": {"name": "a"},
        "spec": {"template": {"spec": job_set["spec"]}},
    }  # fmt: skip


KEEP, GO = {"whenDeleted": "Retain"}, {"whenDeleted": "Delete"}


@pytest.mark.parametrize(
    ("name", "path", "retention", "expected"),
    [
        ("checkpoints", "/ckpt", None, True),
        ("volume", "/mnt/ckpt", None, True),
        ("dataset", "/in", {}, True),
        ("work", "/workspace", None, True),
        ("checkpoints", "/ckpt", GO, True),
        ("pvc", "/results", GO, True),
        ("work", "/workspace", GO, False),
        ("checkpoints", "/ckpt", KEEP, False),
        ("dataset", "/data", KEEP, False),
        ("scratch", "/scratch", None, False),
        ("model-cache", "/root/.cache", None, False),
        ("fast", "/tmp", None, False),
        ("prompt-templates", "/in", None, True),
        ("attempts", "/out", None, True),
    ],
)
def test_what_holds_checkpoints_or_data_stays(name: str, path: str, retention: Data | None, expected: bool) -> None:
    plain = job_set(name, path, retention)
    for manifest in (plain, job_set(name, path, retention, at_init=True), *(runtime(kind, plain) for kind in RUNTIMES)):
        problems = list(claims_that_go(manifest))
        assert [problem.code for problem in problems] == ["TW716"] * expected
        for problem in problems:
            assert at(manifest, problem.pointer) == ("Delete" if retention == GO else name)
            assert name in problem.message


RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")


@needs_crds
def test_it_is_a_warning_and_the_fix_is_one_that_the_definition_takes() -> None:
    version = known_version(None)
    found, _ = object_problems(job_set("checkpoints", "/ckpt"), catalogue(), version)
    assert "TW716" in [problem.code for problem in found]
    kept, _ = object_problems(job_set("checkpoints", "/ckpt", KEEP), catalogue(), version)
    assert not {"TW716", "TW703", "TW707", "TW711"} & {problem.code for problem in kept}


@pytest.mark.parametrize(
    "broken", [None, [], {}, "a", [None], [{"templates": None}], [{"templates": ["a"]}], [{"retentionPolicy": 1}]]
)
def test_any_shape_is_read(broken: object) -> None:
    manifest = job_set("a", "/a")
    manifest["spec"]["volumeClaimPolicies"] = broken
    assert not list(claims_that_go(manifest))


@pytest.mark.parametrize("retention", [None, KEEP])
@pytest.mark.parametrize("target", ["job-set", "train-job"])
def test_a_run_has_its_claims_in_mounts(target: str, retention: Data | None) -> None:
    """An override that brings claims of a JobSet is an error, whatever it says of them."""
    policies = {"volumeClaimPolicies": job_set("checkpoints", "/ckpt", retention)["spec"]["volumeClaimPolicies"]}
    kind, patch = ("JobSet", {"spec": policies}) if target == "job-set" else (
        "TrainingRuntime", {"spec": {"template": {"spec": policies}}},
    )  # fmt: skip
    operators = {"operators": {"jobset": {"version": "0.12"}, "trainer": {"version": "2.3"}}}
    override = {"target": target, "kind": kind, "patch": patch}
    found = findings({"target": target, "overrides": {"objects": [override]}}, operators)
    (finding,) = [one for one in found if one.code == "TW601"]
    assert "deleted with it" in finding.fix
