"""What a TrainJob says of its run, together with its runtime; and a runtime, of a run that nobody has written yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.findings.locate import at, escape
from trainwright.manifest.labels import MANAGED
from trainwright.objects.fields import items, mapping, text
from trainwright.operators.job.said import part_of
from trainwright.operators.jobset.said import JOBS
from trainwright.operators.kubeflow_trainer.pods import ANCESTOR, LAUNCHER, NODE, merged
from trainwright.operators.kubeflow_trainer.releases import RUNTIME_PATCHES
from trainwright.operators.operator import Around
from trainwright.operators.said import TORCH, Part, Said, Words, seconds, stated, variable
from trainwright.operators.training_operator.said import at_number

RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
_KINDS = {"torch": TORCH, "mpi": ("mpi", "horovod"), "xgboost": ("xgboost",), "jax": ("jax",), "": TORCH}
_TRAINER = {"image": "image", "command": "command", "args": "args", "env": "env", "resources": "resourcesPerNode"}


def said(manifest: Mapping[str, Any], around: Around) -> Said:
    """A runtime is a TrainJob that adds nothing to it. One that a run of ours brought goes with that run."""
    if text(manifest, "/kind") in RUNTIMES:
        return _said({"spec": {}}, manifest)
    runtime = _runtime(manifest, around)
    whole = _said(manifest, runtime)
    if MANAGED.items() <= mapping(runtime, "/metadata/labels").items():
        return whole
    refers = _said(manifest, _bare(runtime))
    own = tuple(one for one in refers.parts if not one.further)  # Jobs beside them stay the runtime's
    return refers._replace(parts=own, words={**refers.words, **_initializers(manifest)}, runtime=runtime, instead=whole)


def _initializers(manifest: Mapping[str, Any]) -> Words:
    """What its runtime fetches for it."""
    words: dict[str, tuple[Any, str]] = {}
    for part in ("dataset", "model"):
        there = f"/spec/initializer/{part}"
        for field, key in (("storageUri", "storage_uri"), ("secretRef/name", "secret")):
            if value := text(manifest, f"{there}/{field}"):
                words[f"/initializer/{part}/{key}"] = (value, f"{there}/{field}")
        for number, one in items(manifest, f"{there}/env"):
            if (value := variable(one)) is not None:
                words[f"/initializer/{part}/env/{escape(text(one, '/name'))}"] = (value, f"{there}/env/{number}")
    return words


def _runtime(manifest: Mapping[str, Any], around: Around) -> Mapping[str, Any]:
    """The one that is named, among the others; of those that Trainer's release brings, what it says."""
    kind, name = text(manifest, "/spec/runtimeRef/kind", RUNTIMES[0]), text(manifest, "/spec/runtimeRef/name")
    for one in around.objects:
        if (one.get("kind"), text(one, "/metadata/name")) == (kind, name):
            return one
    if name in RELEASED:
        return RELEASED[name]
    raise LookupError(f"{kind} {name} is not among the objects; add what `kubectl get {kind.lower()} {name} -o yaml` prints")


def _bare(runtime: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a runtime what a run of it repeats, and not what it leaves to it: what its container runs, and on how many devices."""
    spec = runtime["spec"]
    jobs = [{**job, "template": {**job["template"], "spec": _bare_job(job["template"]["spec"])}}
            for job in spec["template"]["spec"]["replicatedJobs"]]  # fmt: skip
    return {**runtime, "spec": {**spec, "template": {"spec": {"replicatedJobs": jobs}}}}


def _bare_job(job: Mapping[str, Any]) -> Mapping[str, Any]:
    pod = job["template"]["spec"]
    containers = []
    for one in pod["containers"]:
        if one["name"] == NODE:
            devices = {
                field: {name: amount for name, amount in mapping(one, f"/resources/{field}").items() if "/" in name}
                for field in ("limits", "requests")
            }
            repeated = {key: one[key] for key in ("name", "image", "command", "args") if key in one}
            containers.append({**repeated, "resources": devices})
    volumes = {key: pod[key] for key in ("volumes",) if key in pod}  # which a patch may mount
    return {**job, "template": {"spec": {"containers": containers, **volumes}}}


def _released(name: str, policy: str, image: str, numbers: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    trains = {"metadata": {"labels": {ANCESTOR: "trainer"}}}
    jobs = [
        {"name": job, "template": {**(trains if job == names[0] else {}), "spec": {"template": {"spec": {
            "containers": [{"name": NODE, "image": image}]}}}}}
        for job in names
    ]  # fmt: skip
    spec = {"mlPolicy": {"numNodes": 1, policy: dict(numbers)}, "template": {"spec": {"replicatedJobs": jobs}}}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": RUNTIMES[0], "metadata": {"name": name}, "spec": spec}


_OPEN_MPI = {"mpiImplementation": "OpenMPI", "runLauncherAsNode": True}
RELEASED: Mapping[str, Mapping[str, Any]] = {
    str(one["metadata"]["name"]): one
    for one in (
        _released("torch-distributed", "torch", "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime", {}, NODE),
        _released("jax-distributed", "jax", "nvcr.io/nvidia/jax:25.10-py3", {}, NODE),
        _released("xgboost-distributed", "xgboost", "ghcr.io/kubeflow/trainer/xgboost-runtime", {}, NODE),
        _released("deepspeed-distributed", "mpi", "ghcr.io/kubeflow/trainer/deepspeed-runtime", _OPEN_MPI, LAUNCHER, NODE),
        _released("mlx-distributed", "mpi", "ghcr.io/kubeflow/trainer/mlx-runtime", _OPEN_MPI, LAUNCHER, NODE),
    )
}
"""Runtimes of Trainer's own release by name, whole but for those under mpirun (kubeflow/trainer, manifests/base/runtimes, at
8c0f5059b of 2026-08-21; torch and JAX are the same at v2.3.0). A cluster may have others under these names: with the runtime
among the files, or in the profile, they are not asked.
"""


def _said(manifest: Mapping[str, Any], runtime: Mapping[str, Any]) -> Said:
    whole_runtime = merged(manifest, runtime)
    spec = whole_runtime["spec"]["template"]["spec"]
    policy = mapping(whole_runtime, "/spec/mlPolicy")
    name = next((one for one in _KINDS if one in policy), "")
    holder = {"spec": spec}
    parts = [_part(holder, number, text(one, "/name"), manifest) for number, one in items(holder, JOBS)]
    words: dict[str, tuple[Any, str]] = {
        **dict(stated(holder, {"/spec/failurePolicy/maxRestarts": "/restarts"})),
        **dict(seconds(manifest, "/spec/activeDeadlineSeconds")),
    }
    for number, patch in items(manifest, "/spec/runtimePatches"):
        for field in ("labels", "annotations"):
            for key, value in mapping(patch, f"/trainingRuntimeSpec/template/metadata/{field}").items():
                place = f"/spec/runtimePatches/{number}/trainingRuntimeSpec/template/metadata/{field}/{escape(key)}"
                words[f"/{field}/{escape(key)}"] = (str(value), place)
    each = at_number(manifest, "/spec/trainer/numProcPerNode") or at_number(policy, f"/{name}/numProcPerNode")
    if each:
        words["/topology/processes_per_node"] = (each, "/spec/trainer/numProcPerNode")
    if name != "mpi":
        lead = next((one for one in parts if one.role == NODE), parts[0])
        others = [one._replace(ranks=False, further=True) for one in parts if one is not lead and "initializer" not in one.role]
        return Said("train-job", (lead._replace(role="node"), *others), _KINDS[name], words, release=_release(manifest))
    as_node = at(policy, "/mpi/runLauncherAsNode") is True
    if as_node:
        words["/topology/launcher_is_node"] = (True, "/spec/mlPolicy/mpi/runLauncherAsNode")
    launcher = next((one for one in parts if one.role == LAUNCHER), parts[0])._replace(role="launcher", ranks=as_node)
    nodes = [one._replace(role="node") for one in parts if one.role == NODE]
    if as_node and len(parts) == 1:
        launcher = launcher._replace(role="node")
    return Said("train-job", (launcher, *nodes), _KINDS[name], words, release=_release(manifest))


def _release(manifest: Mapping[str, Any]) -> tuple[int, int] | None:
    """The last one that reads what a TrainJob has of earlier ones."""
    major, minor = RUNTIME_PATCHES.since
    return (major, minor - 1) if at(manifest, "/spec/podTemplateOverrides") else None


def _part(holder: Mapping[str, Any], number: int, role: str, manifest: Mapping[str, Any]) -> Part:
    part = part_of(holder, role, f"{JOBS}/{number}/template/spec")
    trains = text(holder, f"{JOBS}/{number}/template/metadata/labels/{ANCESTOR.replace('/', '~1')}") == "trainer"
    fields = {f"/spec/containers/0/{field}": f"/spec/trainer/{there}" for field, there in _TRAINER.items()} if trains else {}
    return part._replace(container=NODE, elsewhere=fields)
