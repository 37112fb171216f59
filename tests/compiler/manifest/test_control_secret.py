"""The Secret by which the pods of a run know each other: who mounts it, who says so, and where there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.compiler.example import Data, command, compiled
from tests.compiler.objects import the

from trainwright.compile import CompiledRun
from trainwright.report.plan import plan_lines

SECRET: Data = {"namespaces": {"training": {"control_secret": {"name": "trainwright-control", "key": "tls.key"}}}}
VOLUME: Data = {
    "name": "control-secret",
    "secret": {"secretName": "trainwright-control", "items": [{"key": "tls.key", "path": "control"}], "defaultMode": 0o444},
}
MOUNT: Data = {"name": "control-secret", "mountPath": "/run/secrets/trainwright", "readOnly": True}


def pod(result: CompiledRun) -> dict[str, Any]:
    spec: dict[str, Any] = the(result, "Job")["spec"]["template"]["spec"]
    return spec


def world(result: CompiledRun) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(the(result, "ConfigMap")["data"]["run.json"])["world"]
    return found


def control(result: CompiledRun) -> str | None:
    """The plan's line about it."""
    return next((line.split(maxsplit=1)[1] for line in plan_lines(result) if line.startswith("  control ")), None)


def test_pods_mount_the_secret_that_the_profile_names() -> None:
    result = compiled({}, SECRET)
    assert VOLUME in pod(result)["volumes"]
    assert MOUNT in pod(result)["containers"][0]["volumeMounts"]
    assert world(result)["control_secret"] == "/run/secrets/trainwright/control"  # noqa: S105 - a path
    assert control(result) == "authenticated by Secret trainwright-control, key tls.key; no NetworkPolicy fences the pods"


def test_a_profile_that_names_none_changes_nothing_and_the_plan_says_what_there_is() -> None:
    result = compiled({}, {"network_policy": True})
    assert "control_secret" not in world(result)
    assert "control-secret" not in json.dumps(pod(result))
    said = "not authenticated: pods name run and attempt, and prove nothing; a NetworkPolicy admits this run's pods"
    assert control(result) == said


@pytest.mark.parametrize("run", [
    command("train"), {"topology": {"kind": "ddp", "nodes": 1, "gpus_per_node": 8}},
], ids=["a command", "one node"])
def test_a_run_without_a_control_channel_mounts_nothing(run: Data) -> None:
    result = compiled(run, SECRET)
    assert "control-secret" not in json.dumps(pod(result))
    assert control(result) is None
