"""Kueue, which admits runs to quotas: what it reads on the objects of a run, and its queues."""

from __future__ import annotations

from typing import Any

from trainwright.cluster.addons import Queue
from trainwright.findings.locate import escape
from trainwright.handshake import Role
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.labels import KEEP, MANAGED
from trainwright.manifest.provenance import Tree, Why
from trainwright.plan import Resolution

GROUP = "kueue.x-k8s.io"
LOCAL_QUEUE = ObjectKind(
    GroupKind(GROUP, "LocalQueue"),
    reasons={
        "": "the queue that runs of this namespace name",
        "/metadata": "referenced by the runs' queue",
        "/metadata/annotations": "removing an Application never takes the queue away from under a run",
    },
)
PREFIX = f"{GROUP}/"
"""Of keys and scheduling gates that it sets itself."""
QUEUE_LABEL = f"{GROUP}/queue-name"
DEFAULT_QUEUE = "default"
"""The LocalQueue of a namespace that Kueue puts objects into which name none (pkg/controller/jobframework/defaults.go)."""
SLICE, SLICE_SIZE = f"{GROUP}/podset-slice-required-topology", f"{GROUP}/podset-slice-size"
MULTIKUEUE = f"{GROUP}/multikueue"
"""The controller of an object that runs in another cluster."""

PLACE = Owned(
    r"/metadata/annotations/kueue\.x-k8s\.io~1podset-((required|preferred|unconstrained)-topology|group-name)",
    "the place of the pods",
    "use placement: of these annotations Kueue takes one at most, and the plan writes it",
)
"""Of any object (kubernetes-sigs/kueue, pkg/controller/jobframework/tas_validation.go)."""


def queue_labels(resolution: Resolution) -> Tree:
    """What Kueue reads on the object that carries the run, and nowhere below."""
    queue = resolution.run.queue
    if queue is None or resolution.cluster.kueue is None:
        return {}
    return {QUEUE_LABEL: Why(queue, "run:/queue", "the LocalQueue that admits the run")}


def dispatching_queue(resolution: Resolution) -> str | None:
    """The queue of a run whose ClusterQueue sends runs to other clusters."""
    run, cluster = resolution.run, resolution.cluster
    namespace = cluster.namespaces.get(run.namespace)
    stated = namespace.queues.get(run.queue) if namespace and run.queue and cluster.kueue else None
    return run.queue if stated and stated.multikueue else None


def managed_by(resolution: Resolution) -> Tree:
    """Of the object that carries the run. Kueue copies it to another cluster without this field, and writes its status here."""
    queue = dispatching_queue(resolution)
    if queue is None:
        return {}
    pointer = f"cluster:/namespaces/{escape(resolution.run.namespace)}/queues/{escape(queue)}/multikueue"
    return {"managedBy": Why(MULTIKUEUE, pointer, "the queue sends the run to another cluster, and nothing may start it here")}


def finds_places(resolution: Resolution) -> bool:
    """Whether the queue of a run looks for the place of its pods."""
    kueue = resolution.cluster.kueue
    return bool(resolution.run.queue) and kueue is not None and kueue.topology_aware


def pod_annotations(resolution: Resolution, role: Role) -> Tree:
    """What topology-aware scheduling reads on pods. It picks a place for the pods of one role, so a pod without ranks, alone in
    its role, has none to be near to.
    """
    run = resolution.run
    if not (role.holds_ranks and run.placement.together and finds_places(resolution)):
        return {}
    key = f"{GROUP}/podset-required-topology" if run.placement.required else f"{GROUP}/podset-preferred-topology"
    level = resolution.cluster.topology[run.placement.together].label
    return {key: Why(level, "run:/placement/together", "one place of this level for all pods")}


def local_queue(namespace: str, name: str, queue: Queue, pointer: str) -> dict[str, Any]:
    """A queue of the foundation. v1beta2 is served since Kueue 0.15."""
    return {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": LOCAL_QUEUE.key.kind,
        "metadata": {
            "name": Why(name, pointer, "as the cluster profile names it"),
            "namespace": namespace,
            "labels": dict(MANAGED),
            "annotations": dict(KEEP),
        },
        "spec": {"clusterQueue": Why(queue.cluster_queue, f"{pointer}/cluster_queue", "as the cluster profile says")},
    }
