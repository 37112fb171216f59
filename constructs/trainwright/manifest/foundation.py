"""The foundation of a namespace: what must be there before runs, and stays after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwright.cluster import Claim, Cluster
from trainwright.findings.locate import escape
from trainwright.manifest import kueue
from trainwright.manifest.kinds import GroupKind, ObjectKind
from trainwright.manifest.labels import KEEP, MANAGED
from trainwright.manifest.monitoring import KINDS as MONITORING
from trainwright.manifest.monitoring import WatchedRun, monitoring_objects
from trainwright.manifest.provenance import Why

KINDS = (
    ObjectKind(
        GroupKind("", "Namespace"),
        reasons={
            "": "where the runs live",
            "/metadata": "the namespace of the runs",
            "/metadata/labels": "pod security standard that the API server enforces",
            "/metadata/annotations": "removing an Application never removes the namespace",
        },
    ),
    ObjectKind(
        GroupKind("", "PersistentVolumeClaim"),
        reasons={
            "": "storage that outlives every run",
            "/metadata": "referenced by the runs' mounts",
            "/metadata/annotations": "removing a run, or an Application, never removes checkpoints or data",
            "/spec": "as the cluster profile describes it",
        },
    ),
    kueue.LOCAL_QUEUE,
    *MONITORING,
)


def foundation(cluster: Cluster, namespace: str, watched: Sequence[WatchedRun] = ()) -> list[dict[str, Any]]:
    """The managed objects of one namespace, in the order in which they are needed, then what watches its runs; empty if there is
    nothing for us to create.
    """
    described = cluster.namespaces[namespace]
    pointer = f"cluster:/namespaces/{escape(namespace)}"
    objects = [_namespace(namespace, described.pod_security, pointer)] if described.managed else []
    for name, claim in described.claims.items():
        if claim.managed:
            objects.append(_claim(namespace, name, claim, f"{pointer}/claims/{escape(name)}"))
    for name, queue in described.queues.items():
        if queue.managed:
            objects.append(kueue.local_queue(namespace, name, queue, f"{pointer}/queues/{escape(name)}"))
    return [*objects, *monitoring_objects(cluster, namespace, watched)]


def _namespace(name: str, pod_security: str, pointer: str) -> dict[str, Any]:
    level = Why(pod_security, f"{pointer}/pod_security", "pod security standard of the namespace")
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": Why(name, pointer, "as the cluster profile names it"),
            "labels": {
                **MANAGED,
                "pod-security.kubernetes.io/enforce": level,
                "pod-security.kubernetes.io/warn": level,
            },
            "annotations": dict(KEEP),
        },
    }


def _claim(namespace: str, name: str, claim: Claim, pointer: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": Why([claim.access], f"{pointer}/access", "as the cluster profile says")}
    if claim.storage_class:
        spec["storageClassName"] = Why(claim.storage_class, f"{pointer}/storage_class", "as the cluster profile says")
    spec["resources"] = {"requests": {"storage": Why(str(claim.size), f"{pointer}/size", "as the cluster profile says")}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": Why(name, pointer, "as the cluster profile names it"),
            "namespace": namespace,
            "labels": dict(MANAGED),
            "annotations": dict(KEEP),
        },
        "spec": spec,
    }
