"""Runtimes of Kubeflow Trainer that a platform team has installed, as a profile holds them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, JsonValue, model_validator

from trainwright.model import Model
from trainwright_trainer.contract.base import PlacedError

KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")


class InstalledRuntime(Model):
    """A ClusterTrainingRuntime or TrainingRuntime that is there, and belongs to somebody else."""

    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][^\x00\\]*\.ya?ml$", max_length=255)] | None = None
    """File beside the profile that holds it, as `trainwright runtimes` writes it."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """Of kind, name and spec. What runs are compiled for changes with it, by a line that a reviewer reads."""
    manifest: dict[str, JsonValue] = Field(default_factory=dict)
    """The object itself, where there is no file."""

    @model_validator(mode="after")
    def _is_a_runtime(self) -> Self:
        if self.manifest.get("kind") not in KINDS:
            raise PlacedError(f"this is no {' and no '.join(KINDS)}; write file, or the object under manifest", "manifest")
        if not all(isinstance(job.get("name"), str) and containers_of(job) for job in self.jobs) or not self.jobs:
            message = "it has no replicatedJobs with names and containers; write the runtime as kubectl prints it"
            raise PlacedError(message, "manifest")
        return self

    @property
    def name(self) -> str:
        return str(_below(self.manifest, "metadata").get("name"))

    @property
    def spec(self) -> Mapping[str, Any]:
        return _below(self.manifest, "spec")

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """Its replicated Jobs."""
        jobs = _below(self.spec, "template", "spec").get("replicatedJobs")
        return [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []

    @property
    def policies(self) -> list[str]:
        """What its `mlPolicy` is about: `torch`, `mpi`."""
        return [name for name in _below(self.spec, "mlPolicy") if name != "numNodes"]


def containers_of(job: Mapping[str, Any]) -> list[Any]:
    """Of the pods of a replicated Job."""
    containers = _below(job, "template", "spec", "template", "spec").get("containers")
    return containers if isinstance(containers, list) and all(isinstance(one, dict) for one in containers) else []


def _below(node: Any, *keys: str) -> Mapping[str, Any]:
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def held_at(cluster: str, name: str) -> str:
    """The file of a runtime, beside the profile."""
    return f"runtimes/{cluster}/{name}.yaml"


def without_server_fields(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A runtime as somebody would have written it: what the API server and clients note is left out."""
    stated = {key: value for key, value in (manifest.get("metadata") or {}).items() if key in ("name", "namespace", "labels")}
    return {"apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind"), "metadata": stated, "spec": manifest["spec"]}


_FILLED_IN = {
    "replicas": 1, "groupName": "default", "restartStrategy": "Recreate", "scheduleTimeoutSeconds": 60, "protocol": "TCP",
}  # fmt: skip
"""What the definitions of runtimes have the API server fill in (manifests/base/crds of kubeflow/trainer, 2.1 to 2.3)."""


def _without_filled_in(node: Any) -> Any:
    if isinstance(node, Mapping):
        stated = {key: value for key, value in node.items() if key not in _FILLED_IN or value != _FILLED_IN[key]}
        return {key: _without_filled_in(value) for key, value in stated.items()}
    return [_without_filled_in(item) for item in node] if isinstance(node, list | tuple) else node


def digest_of(manifest: Mapping[str, Any]) -> str:
    """By which a runtime is told from another one. Comments, labels and what the API server fills in make none, so the manifest
    of a release is what `kubectl get` prints of it.
    """
    spec = _without_filled_in(manifest.get("spec"))
    told = {"kind": manifest.get("kind"), "name": (manifest.get("metadata") or {}).get("name"), "spec": spec}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
