"""A run whose data is fetched, and its objects as they would be applied."""

from __future__ import annotations

from typing import Any

from tests.compiler.example import Data, compiled

from trainwright.compile import CompiledRun

IMAGE = "registry.example.com/mirror/rclone@sha256:" + "2f" * 32
KEYS = {"access_key": {"secret": "object-store", "key": "id"}, "secret_key": {"secret": "object-store", "key": "secret"}}
MOUNT: Data = {"claim": "checkpoints", "sub_path": "data", "read_only": True}
SOURCE: Data = {"source": "s3://example-datasets/digits", "image": IMAGE, "credentials": KEYS}


def prepared(run: Data | None = None, cluster: Data | None = None, **changes: Any) -> CompiledRun:
    """With ``changes`` of the preparation; None removes."""
    preparation = {key: value for key, value in (SOURCE | changes).items() if value is not None}
    return compiled({"mounts": {"/data": MOUNT}, "prepare": {"/data/digits": preparation}} | (run or {}), cluster)


def fetch_job(run: CompiledRun) -> dict[str, Any]:
    [index] = run.shared
    return run.manifests[index]


def own_job(run: CompiledRun) -> dict[str, Any]:
    [job] = [one for index, one in enumerate(run.manifests) if one["kind"] == "Job" and index not in run.shared]
    return job


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod
