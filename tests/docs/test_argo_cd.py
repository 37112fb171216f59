"""The examples for Argo CD do what the page says: in a real Lua, of the version that Argo CD has, and with a real jq."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jq
import pytest
from lupa.lua51 import LuaRuntime
from ruamel.yaml import YAML
from tests.docs.test_snippets import base

from trainwright.cluster import Cluster
from trainwright.compile import compile_run
from trainwright.reading import validate_data
from trainwright.reading.document import read_yaml
from trainwright.run import Run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "argo-cd"
APPLICATIONS = "argoproj.io_Application"
Data = dict[str, Any]
Statuses = dict[str, tuple[Data, str, str]]

HEALTH = YAML(typ="safe").load(EXAMPLES / "health.yaml")["data"]
FOUNDATION, RUNS = YAML(typ="safe").load_all(EXAMPLES / "applications.yaml")


def said(words: str) -> Data:
    """Conditions as the controllers leave them behind, oldest first; ``-`` before one whose status has become False."""
    parts = [word.rpartition("-") for word in words.split()]
    conditions = [{"type": word, "status": "False" if gone else "True", "message": f"about {word}"} for _, gone, word in parts]
    return {"conditions": conditions}


# Name -> status, health, and the condition that Argo CD shows.
NO_VERDICT = ("Progressing", "no verdict yet")
JOB: Statuses = {
    "new": ({}, *NO_VERDICT),
    "runs": ({"active": 4, "ready": 4}, *NO_VERDICT),
    "waits in a queue": (said("Suspended"), "Suspended", "Suspended: about Suspended"),
    "admitted, and runs": (said("-Suspended"), *NO_VERDICT),
    "complete": (said("-Suspended SuccessCriteriaMet Complete"), "Healthy", "Complete: about Complete"),
    "failed": (said("FailureTarget Failed"), "Degraded", "Failed: about Failed"),
}
JOB_SET: Statuses = {
    "new": ({"restarts": 0}, *NO_VERDICT),
    "waits in a queue": (said("Suspended"), "Suspended", "Suspended: about Suspended"),
    "admitted, and runs": (said("-Suspended"), *NO_VERDICT),
    "complete": (said("Completed"), "Healthy", "Completed: about Completed"),
    "failed": (said("Failed"), "Degraded", "Failed: about Failed"),
}
TRAIN_JOB: Statuses = {
    "new": ({}, *NO_VERDICT),
    "waits in a queue": (said("Suspended"), "Suspended", "Suspended: about Suspended"),
    "runs": (said("-Suspended"), *NO_VERDICT),
    "complete": (said("-Suspended Complete"), "Healthy", "Complete: about Complete"),
    "failed": (said("-Suspended Failed"), "Degraded", "Failed: about Failed"),
}
KUBEFLOW: Statuses = {
    "created": (said("Created"), "Progressing", "Created: about Created"),
    "runs": (said("Created Running"), "Progressing", "Running: about Running"),
    "restarts": (said("Created -Running Restarting"), "Progressing", "Restarting: about Restarting"),
    "waits in a queue": (said("Created Suspended"), "Suspended", "Suspended: about Suspended"),
    "admitted, and runs": (said("Created -Suspended Running"), "Progressing", "Running: about Running"),
    "succeeded": (said("Created -Running Succeeded"), "Healthy", "Succeeded: about Succeeded"),
    "failed": (said("Created -Running Failed"), "Degraded", "Failed: about Failed"),
}
RAY_JOB: Statuses = {
    "new": ({}, "Progressing", ""),
    "starts": ({"jobDeploymentStatus": "Initializing"}, "Progressing", "Initializing: "),
    "runs": ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "Progressing", "Running: RUNNING"),
    "tries again": ({"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}, "Progressing", "Retrying: FAILED"),
    "waits in a queue": ({"jobDeploymentStatus": "Suspended"}, "Suspended", "Suspended: "),
    "succeeded": ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "Healthy", "Complete: SUCCEEDED"),
    "stopped": ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "Degraded", "Complete: STOPPED"),
    "failed": (
        {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "the driver ended with 1"},
        "Degraded", "Failed: the driver ended with 1",
    ),
    "refused": ({"jobDeploymentStatus": "ValidationFailed", "reason": "because"}, "Degraded", "ValidationFailed: because"),
}
STATUSES = {
    "batch_Job": JOB,
    "jobset.x-k8s.io_JobSet": JOB_SET,
    "trainer.kubeflow.org_TrainJob": TRAIN_JOB,
    "kubeflow.org_PyTorchJob": KUBEFLOW,
    "kubeflow.org_TFJob": KUBEFLOW,
    "kubeflow.org_XGBoostJob": KUBEFLOW,
    "kubeflow.org_MPIJob": KUBEFLOW,
    "ray.io_RayJob": RAY_JOB,
}
APPLICATION: Statuses = {
    "waits for its Jobs": ({"health": {"status": "Progressing"}}, "Progressing", ""),
    "in order": ({"health": {"status": "Healthy", "message": "all there"}}, "Healthy", "all there"),
    "not looked at": ({"sync": {"status": "Unknown"}}, "Progressing", ""),
}
CHECKED = {**STATUSES, APPLICATIONS: APPLICATION}
CASES = {f"{kind} {name}": (kind, *case) for kind, statuses in CHECKED.items() for name, case in statuses.items()}


@pytest.mark.parametrize(("kind", "status", "health", "message"), CASES.values(), ids=CASES)
def test_the_health_of_a_status(kind: str, status: Data, health: str, message: str) -> None:
    assert assess(kind, {"status": status}) == (health, message)


@pytest.mark.parametrize("kind", STATUSES)
def test_an_object_that_no_controller_has_seen_is_not_healthy(kind: str) -> None:
    assert assess(kind, {})[0] == "Progressing"


def test_every_kind_that_carries_a_run_has_a_check() -> None:
    groups = {f"{entry.get('group')}_{entry['kind']}" for entry in RUNS["spec"]["ignoreDifferences"]}
    checks = {key.removeprefix("resource.customizations.health.") for key in HEALTH}
    assert checks - {APPLICATIONS} == STATUSES.keys() == groups


def assess(kind: str, manifest: Data) -> tuple[str, str]:
    """What Argo CD shows: it gives the script the object as ``obj``, and no library but the basic one."""
    lua = LuaRuntime()
    for library in ("os", "io", "package", "require", "string", "math"):
        lua.globals()[library] = None
    lua.globals()["obj"] = lua.table_from(manifest, recursive=True)
    answer = lua.execute(HEALTH[f"resource.customizations.health.{kind}"])
    return answer["status"], answer["message"]


# Fields that a queue writes.

RUN_OF: dict[str, tuple[str, Data]] = {
    "Job": ("h100-ib", {}),
    "JobSet": ("roce-h200", {}),
    "TrainJob": ("trainer-h100", {"queue": "research"}),
    "PyTorchJob": ("kubeflow-a100", {}),
    "TFJob": (
        "kubeflow-a100", {"target": "tf-job", "topology": {"kind": "multi-worker-mirrored", "nodes": 2, "gpus_per_node": 8}},
    ),
    "XGBoostJob": ("kubeflow-a100", {"target": "xgboost-job", "topology": {"kind": "xgboost", "nodes": 2, "gpus_per_node": 1}}),
    "MPIJob": ("kubeflow-a100", {"target": "mpi-job", "topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8}}),
    "RayJob": (
        "ray-l40s",
        {
            "topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 4, "version": "2.52.0"}, "trainer_version": None,
            "workload": {"kind": "command", "command": ["python", "train.py"]},
        },
    ),
}


def manifest_of(kind: str) -> Data:
    name, changes = RUN_OF[kind]
    profile = read_yaml(ROOT / "charts" / "clusters" / f"{name}.yaml").data
    data = {key: value for key, value in {**base(profile), **changes}.items() if value is not None}
    compiled = compile_run(validate_data(Run, data, None, {}), validate_data(Cluster, profile, None, {}))
    return next(manifest for manifest in compiled.manifests if manifest["kind"] == kind)


def ignored(kind: str, manifest: Data) -> Data:
    """What is left of an object after Argo CD has taken out what it does not compare."""
    entry = next(entry for entry in RUNS["spec"]["ignoreDifferences"] if entry["kind"] == kind)
    for expression in entry["jqPathExpressions"]:
        manifest = jq.compile(f"del({expression})").input_value(manifest).first()
    return manifest


def places(value: Any, pointer: str = "") -> Iterator[str]:
    """Pointers of every mapping key."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield f"{pointer}/{key}"
            yield from places(child, f"{pointer}/{key}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from places(child, f"{pointer}/{index}")


@pytest.mark.parametrize("kind", [kind for kind in RUN_OF if kind != "TrainJob"])
def test_what_a_queue_writes_into_pods_is_not_compared(kind: str) -> None:
    manifest = manifest_of(kind)
    written = {place for place in places(manifest) if place.rpartition("/")[2] in ("nodeSelector", "tolerations")}
    scaled = {"/spec/pytorchReplicaSpecs/Worker/replicas"} if kind == "PyTorchJob" else set()
    gone = set(places(manifest)) - set(places(ignored(kind, manifest)))
    assert written | scaled <= gone
    assert all(any(place.startswith(root) for root in written | scaled) for place in gone)


def test_what_a_queue_adds_to_a_train_job_is_not_compared() -> None:
    manifest = manifest_of("TrainJob")
    theirs: Data = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {}}
    admitted = {**manifest, "spec": {**manifest["spec"], "runtimePatches": [*manifest["spec"]["runtimePatches"], theirs]}}
    assert ignored("TrainJob", admitted) == manifest


def test_the_settings_keep_what_must_be_kept() -> None:
    assert FOUNDATION["spec"]["syncPolicy"]["automated"] == {"prune": False, "selfHeal": True}
    assert RUNS["spec"]["syncPolicy"]["automated"] == {"prune": True, "selfHeal": True}
    assert RUNS["spec"]["syncPolicy"]["retry"]["limit"] < 0
    assert RUNS["spec"]["syncPolicy"]["retry"]["refresh"], "a retry without an end would keep to the commit that failed"
    assert set(RUNS["spec"]["syncPolicy"]["syncOptions"]) == {
        "ApplyOutOfSyncOnly=true", "ServerSideApply=true", "RespectIgnoreDifferences=true",
    }
