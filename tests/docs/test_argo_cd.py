"""What Argo CD is told of each kind does what the page says: in a real Lua, of the version that it has, and with a real jq."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jq
import pytest
from lupa.lua51 import LuaRuntime
from ruamel.yaml import YAML
from tests.compiler.example import compiled
from tests.compiler.targets import CASES as TARGETS
from tests.compiler.targets import Statuses, on, profile_for

from trainwright.gitops.applications import health_patch
from trainwright.gitops.model import GitOps
from trainwright.operators import TARGETS as REGISTRY

ROOT = Path(__file__).resolve().parents[2]
APPLICATIONS = "argoproj.io_Application"
Data = dict[str, Any]

HEALTH = health_patch(GitOps(repository="https://git.example.com/ml/training.git"))["data"]


QUEUED = [name for name, case in TARGETS.items() if case.kueue]
"""Targets that Kueue has an integration for, by which it writes into their objects."""
STATUSES: dict[str, Statuses] = {"_".join(case.kind): case.statuses for case in TARGETS.values()}
"""Group and kind, as Argo CD's settings write them -> what an object of it can be in, by name."""
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
    checks = {key.removeprefix("resource.customizations.health.") for key in HEALTH}
    assert checks - {APPLICATIONS} == STATUSES.keys()


def test_every_kind_that_a_queue_writes_into_has_its_places() -> None:
    assert [name for name, target in REGISTRY.items() if target.queue_writes] == [name for name in REGISTRY if name in QUEUED]
    assert [name for name, target in REGISTRY.items() if target.queue_adds_by_key] == ["train-job"]


def assess(kind: str, manifest: Data) -> tuple[str, str]:
    """What Argo CD shows: it gives the script the object as ``obj``, and no library but the basic one."""
    lua = LuaRuntime()
    for library in ("os", "io", "package", "require", "string", "math"):
        lua.globals()[library] = None
    lua.globals()["obj"] = lua.table_from(manifest, recursive=True)
    answer = lua.execute(HEALTH[f"resource.customizations.health.{kind}"])
    return answer["status"], answer["message"]


# Fields that a queue writes.

POOL: Data = {"labels": {"example.com/pool": "training"}}


def manifest_of(target: str) -> Data:
    """The object that carries a run, for a pool with labels and taints."""
    pools = {"h100": POOL, "cpu": POOL | {"taints": [{"key": "cpu"}]}}
    result = compiled(on(target, scheduling_gates=["example.com/network"]), profile_for(target) | {"node_pools": pools})
    group, kind = TARGETS[target].kind
    (manifest,) = (one for one in result.manifests if (one["apiVersion"].rpartition("/")[0], one["kind"]) == (group, kind))
    return manifest


def ignored(target: str, manifest: Data) -> Data:
    """What is left of an object after Argo CD has taken out what it does not compare."""
    for expression in REGISTRY[target].queue_writes:
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


@pytest.mark.parametrize("target", [target for target in QUEUED if target != "train-job"])
def test_what_a_queue_writes_into_pods_is_not_compared(target: str) -> None:
    manifest = manifest_of(target)
    fields = {"nodeSelector", "tolerations", "schedulingGates"}
    written = {place for place in places(manifest) if place.rpartition("/")[2] in fields}
    assert {place.rpartition("/")[2] for place in written} == fields
    gone = set(places(manifest)) - set(places(ignored(target, manifest)))
    assert written <= gone
    assert all(any(place.startswith(root) for root in written) for place in gone), "sizes are Git's, and so is all the rest"


def test_what_a_queue_adds_to_a_train_job_is_not_compared() -> None:
    manifest = manifest_of("train-job")
    theirs: Data = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {}}
    admitted = {**manifest, "spec": {**manifest["spec"], "runtimePatches": [*manifest["spec"]["runtimePatches"], theirs]}}
    assert ignored("train-job", admitted) == manifest


def test_of_a_foundation_what_must_outlive_runs_is_not_pruned() -> None:
    objects = [one for path in (ROOT / "dist").glob("*/*/foundation/*.yaml") for one in YAML(typ="safe").load_all(path)]
    kept = {
        one["kind"] for one in objects
        if one["metadata"].get("annotations", {}).get("argocd.argoproj.io/sync-options") == "Prune=false,Delete=false"
    }
    assert kept == {"Namespace", "PersistentVolumeClaim", "LocalQueue", "TrainingRuntime"}
    assert {one["kind"] for one in objects} - kept == {"Job", "PodMonitor", "PrometheusRule", "ConfigMap"}
