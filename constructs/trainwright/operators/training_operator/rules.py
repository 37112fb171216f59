"""Training Operator v1: the validating webhooks of PyTorchJob, TFJob and XGBoostJob (pkg/webhooks/ at v1.9.4).

The API server does not default these kinds, so the webhooks see the fields as they are written: ``replicas`` of a master is not 1
unless it says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, number, text, whole
from trainwright.objects.metadata import not_a_service_label
from trainwright.objects.problem import Objection

RESTART_POLICIES = ("Always", "ExitCode", "Never", "OnFailure")
"""Of a role's pods. The operator writes any other value into them too, and the API server refuses the pods (pkg/core/pod.go)."""

MANAGERS = ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue")


def pytorch_job(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    specs = "/spec/pytorchReplicaSpecs"
    yield from _common(manifest, specs, "pytorch")
    yield from _master_and_workers(manifest, specs, "a PyTorchJob")
    if "Worker" in mapping(manifest, specs) and number(manifest, f"{specs}/Worker/replicas", 1) < 1:
        yield Objection(f"{specs}/Worker/replicas", "Worker needs at least 1 replica", "write 1 or more, or remove Worker")
    elastic = at(manifest, "/spec/elasticPolicy")
    if elastic is None:
        return
    if "Worker" not in mapping(manifest, specs):
        yield Objection(f"{specs}/Worker", "an elasticPolicy needs Worker replicas", "add Worker, or remove elasticPolicy")
    least, most = (whole(manifest, f"/spec/elasticPolicy/{field}") for field in ("minReplicas", "maxReplicas"))
    if least is not None and most is not None and least > most:  # the webhook takes it, and torchrun ends (elastic.go)
        message = f"torchrun gets --nnodes={least}:{most} and ends: the minimum is above the maximum"
        yield Objection("/spec/elasticPolicy/minReplicas", message, "swap them", "TW713")
    if at(manifest, "/spec/elasticPolicy/nProcPerNode") is not None and at(manifest, "/spec/nprocPerNode") is not None:
        message = "processes per node are set twice, here and in spec.nprocPerNode"
        yield Objection("/spec/elasticPolicy/nProcPerNode", message, "keep spec.nprocPerNode: this one is deprecated")


def tf_job(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    specs = "/spec/tfReplicaSpecs"
    yield from _common(manifest, specs, "tensorflow")
    if len(chiefs := [role for role in mapping(manifest, specs) if role in ("Chief", "Master")]) > 1:
        yield Objection(f"{specs}/{chiefs[1]}", "Chief and Master are the same role", "keep Chief")


def xgboost_job(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    specs = "/spec/xgbReplicaSpecs"
    yield from _common(manifest, specs, "xgboost")
    yield from _master_and_workers(manifest, specs, "an XGBoostJob")
    if "Master" not in mapping(manifest, specs):
        yield Objection(f"{specs}/Master", "an XGBoostJob needs a Master", "add Master with `replicas: 1`")


def _master_and_workers(manifest: Mapping[str, Any], specs: str, kind: str) -> Iterator[Objection]:
    for role in mapping(manifest, specs):
        if role not in ("Master", "Worker"):
            yield Objection(f"{specs}/{role}", f"{kind} has no role {role}", "write Master or Worker")
        elif role == "Master" and whole(manifest, f"{specs}/Master/replicas") != 1:
            yield Objection(f"{specs}/Master/replicas", "Master must state `replicas: 1`", "add `replicas: 1`")


def _common(manifest: Mapping[str, Any], specs: str, container: str) -> Iterator[Objection]:
    kind, name = text(manifest, "/kind"), text(manifest, "/metadata/name")
    if reason := not_a_service_label(name):
        yield Objection("/metadata/name", f"the name {name} of a {kind} {reason}", "choose another name")
    if not mapping(manifest, specs):
        yield Objection(specs, f"a {kind} needs replicas", "add a role with a pod template")
    manager = at(manifest, "/spec/runPolicy/managedBy")
    if manager is not None and manager not in MANAGERS:
        message = f"no controller manages {kind}s as {manager}"
        yield Objection("/spec/runPolicy/managedBy", message, f"write {' or '.join(MANAGERS)}")
    for role in mapping(manifest, specs):
        policy = at(manifest, f"{specs}/{role}/restartPolicy")
        if policy not in (None, "", *RESTART_POLICIES):
            message = f"no pod of {role} can be made with restartPolicy {policy}"
            yield Objection(f"{specs}/{role}/restartPolicy", message, f"write one of {', '.join(RESTART_POLICIES)}")
        yield from _containers(manifest, f"{specs}/{role}/template/spec/containers", kind, container)


def _containers(manifest: Mapping[str, Any], place: str, kind: str, wanted: str) -> Iterator[Objection]:
    containers = list(items(manifest, place))
    for index, container in containers:
        if not text(container, "/image"):
            yield Objection(f"{place}/{index}/image", f"container {text(container, '/name')} has no image", "add `image:`")
    if not containers:
        yield Objection(place, "the pods have no containers", f"add a container named {wanted}")
    elif not any(text(container, "/name") == wanted for _, container in containers):
        message = f"no container is named {wanted}, the one that the operator of {kind} looks for"
        yield Objection(place, message, f"name the training container {wanted}")
