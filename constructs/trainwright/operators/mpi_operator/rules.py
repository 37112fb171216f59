"""MPIJob v2beta1: the checks of its controller (mpi-operator, pkg/apis/kubeflow/validation/validation.go at v0.8).

There is no webhook. The API server takes what these checks refuse, and all that shows is one Event: Argo CD says Synced, and
nothing runs. The controller fills in its defaults (pkg/apis/kubeflow/v2beta1/default.go) before it checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, number, text, whole
from trainwright.objects.metadata import not_a_service_label
from trainwright.objects.problem import Objection

SPECS = "/spec/mpiReplicaSpecs"
MANAGERS = ("kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue")
CHOICES = {
    "/spec/mpiImplementation": ("OpenMPI", "Intel", "MPICH"),
    "/spec/runPolicy/cleanPodPolicy": ("None", "Running", "All"),
    "/spec/runPolicy/managedBy": MANAGERS,
}
NOT_NEGATIVE = (
    "/spec/slotsPerWorker",
    "/spec/runPolicy/ttlSecondsAfterFinished",
    "/spec/runPolicy/activeDeadlineSeconds",
    "/spec/runPolicy/backoffLimit",
)


def mpi_job(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    workers = max(number(manifest, f"{SPECS}/Worker/replicas", 1), 1)
    longest = f"{text(manifest, '/metadata/name')}-worker-{workers - 1}"
    if reason := not_a_service_label(longest):
        yield Objection("/metadata/name", f"the operator derives the pod name {longest}, which {reason}", "choose a shorter name")
    for pointer, allowed in CHOICES.items():
        value = at(manifest, pointer)
        if value is not None and value not in allowed:
            yield Objection(pointer, f"{pointer} cannot be {value}", f"write one of {', '.join(allowed)}")
    for pointer in NOT_NEGATIVE:
        if (whole(manifest, pointer) or 0) < 0:
            yield Objection(pointer, f"{pointer} cannot be negative", "write 0 or more")
    if at(manifest, "/spec/sshAuthMountPath") == "":
        yield Objection("/spec/sshAuthMountPath", "the SSH keys need a folder", "write /root/.ssh, or that of the image's user")
    yield from _roles(manifest)


def _roles(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    roles = mapping(manifest, SPECS)
    if "Launcher" not in roles:
        yield Objection(f"{SPECS}/Launcher", "an MPIJob needs a Launcher", "add Launcher with a pod template that runs mpirun")
    elif number(manifest, f"{SPECS}/Launcher/replicas", 1) != 1:
        yield Objection(f"{SPECS}/Launcher/replicas", "an MPIJob has one Launcher", "write 1")
    if "Worker" in roles and number(manifest, f"{SPECS}/Worker/replicas", 0) < 1:
        message = "Worker needs at least 1 replica, and has none (the default is 0)"
        yield Objection(f"{SPECS}/Worker/replicas", message, "write the number of workers in `replicas`")
    for role in roles:
        place = f"{SPECS}/{role}"
        policy = at(manifest, f"{place}/restartPolicy")
        if policy not in (None, "Never", "OnFailure"):
            yield Objection(f"{place}/restartPolicy", f"{role} cannot have restartPolicy {policy}", "write Never or OnFailure")
        if not any(True for _ in items(manifest, f"{place}/template/spec/containers")):
            yield Objection(f"{place}/template/spec/containers", f"{role} has no container", "add one")
