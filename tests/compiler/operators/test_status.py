"""Phases of objects: in states of a real cluster, and by small statuses as the operators' sources write them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.operators.operator import FOLDERS, makes_pods, status
from trainwright.operators.phase import Phase

Data = dict[str, Any]

DUMPS = os.environ.get("TRAINWRIGHT_DUMPS")
GONE = "88-ttl-removed"
"""Of this run nothing is left that could have a status."""
STATES = sorted({path.parent.name for path in Path(DUMPS).glob("*/truth.yaml")} - {GONE}) if DUMPS else []

ALLOWED: dict[str, set[Phase]] = {
    "waiting": {"waiting", "starting", "suspended"}, "running": {"running"}, "failed": {"failed"}, "done": {"done"},
}  # fmt: skip
"""State in the words of a dump -> the phases that say so."""


@pytest.mark.skipif(not DUMPS, reason="TRAINWRIGHT_DUMPS names no folder of states of a cluster")
@pytest.mark.parametrize("state", STATES)
def test_in_a_real_cluster(state: str) -> None:
    folder = Path(DUMPS or "") / state
    truth = yaml.safe_load((folder / "truth.yaml").read_text())
    objects = json.loads((folder / "objects.json").read_text())["items"]
    kind, _, name = truth["object"].partition("/")
    [found] = [one for one in objects if makes_pods(one) and (one["kind"], one["metadata"]["name"]) == (kind, name)]
    phase, reason = status(found, list(pods_of(found, objects)))
    assert phase in ALLOWED[truth["state"]], reason
    assert reason


def pods_of(owner: Data, objects: list[Data]) -> Iterator[Data]:
    """Its own, and those of its children."""
    for one in objects:
        if any(reference["uid"] == owner["metadata"]["uid"] for reference in one["metadata"].get("ownerReferences", ())):
            yield from [one] if one["kind"] == "Pod" else pods_of(one, objects)


def conditions(*entries: tuple[str, str, str]) -> Data:
    return {"conditions": [{"type": kind, "status": value, "reason": reason} for kind, value, reason in entries]}


def pod(phase: str, ready: bool = False) -> Data:
    return {"metadata": {}, "status": {"phase": phase, **conditions(("Ready", str(ready), ""))}}


RUNNING, PENDING = pod("Running", ready=True), pod("Pending")


@pytest.mark.parametrize(("version", "kind", "said", "pods", "phase"), [
    ("batch/v1", "Job", {"active": 2}, [RUNNING, RUNNING], "running"),
    ("batch/v1", "Job", {"active": 2, "ready": 0}, [RUNNING, pod("Failed"), RUNNING], "running"),
    ("batch/v1", "Job", {}, [RUNNING, pod("Running")], "starting"),
    ("batch/v1", "Job", {}, [], "waiting"),
    ("batch/v1", "Job", conditions(("FailureTarget", "True", "PodFailurePolicy")), [RUNNING], "running"),
    ("batch/v1", "Job", conditions(("Suspended", "False", "JobResumed")), [PENDING], "waiting"),
    ("kubeflow.org/v1", "PyTorchJob", conditions(("Running", "True", "PyTorchJobRunning")), [RUNNING, PENDING], "waiting"),
    ("kubeflow.org/v1", "XGBoostJob", conditions(("Running", "False", ""), ("Failed", "True", "XGBoostJobFailed")), [], "failed"),
    ("kubeflow.org/v2beta1", "MPIJob", conditions(("Failed", "True", "MPIJobEvicted")), [RUNNING], "running"),
    ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Running"}}, [RUNNING], "running"),
    ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Terminated"}}, [], "failed"),
    ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Completed"}}, [], "done"),
    ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, [], "done"),
    ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Failed", "reason": "AppFailed"}, [], "failed"),
    ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Suspended"}, [], "suspended"),
    ("example.com/v1", "Job", {}, [RUNNING], "unknown"),
])  # fmt: skip
def test_as_sources_write_it(version: str, kind: str, said: Data, pods: list[Data], phase: Phase) -> None:
    assert status({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "status": said}, pods).phase == phase


def test_every_kind_has_a_phase_without_a_status() -> None:
    for group, kind in FOLDERS:
        manifest = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "a"}}
        assert status(manifest, [PENDING]).phase == "waiting"
