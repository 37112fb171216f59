"""Gang schedulers, which start all pods of a run together or none of them: what each reads, and the group that it makes of pods.

A further one is a record here, and a name in the profile (``Scheduling.gang``). Which flags and fields make an operator ask for a
gang is stated with its target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from trainwright.cluster.addons import Releases
from trainwright.handshake import Gang
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.labels import namespace_of, object_labels
from trainwright.manifest.provenance import Tree, Why
from trainwright.plan import Resolution
from trainwright.plan.model import GangPlan
from trainwright.run import Run


class GangScheduler(NamedTuple):
    """What is known of one."""

    releases: Releases
    crd: str
    """By which a cluster shows that it is installed."""
    labels: Mapping[str, str]
    """That it reads -> the field of a run that stands for each."""
    annotations: Mapping[str, str]
    """That it reads, in the same way."""
    former_labels: tuple[str, ...]
    """That it once read, and no longer does."""
    prefixes: tuple[str, ...]
    """Of keys and scheduling gates that it sets itself."""
    group_label: str | None
    """Label of pods with the name of their group."""
    group_annotation: str | None
    """The same as an annotation."""
    pod_group: ObjectKind
    version: str
    """Of the API in which the group is written."""
    fields: Callable[[GangPlan, Run], Tree]
    """Fields of the group beside its smallest number of pods."""

    @property
    def api_version(self) -> str:
        """Of the group's objects."""
        return f"{self.pod_group.key.group}/{self.version}"

    def join(self, metadata: Tree, group: str) -> None:
        """Name the group of a pod in its metadata, as a controller does that makes both."""
        field, key = ("labels", self.group_label) if self.group_label else ("annotations", self.group_annotation)
        metadata[field] = {**metadata.get(field, {}), key: group}


def _pod_group(group: str, *free: str) -> ObjectKind:
    return ObjectKind(
        GroupKind(group, "PodGroup"),
        reasons={
            "": "pods that start together or not at all: a part of them would hold GPUs and wait for the rest",
            "/metadata": "named like the run's other objects; the pods name it",
            "/metadata/labels": "labels of the run's objects",
        },
        owned=(Owned(r"/spec/(minMember|queue).*", "the gang of the run", "change topology, gang or queue"),),
        free=tuple(f"/spec/{field}" for field in free),
    )


def _queue_and_priority(gang: GangPlan, run: Run) -> Tree:
    queue: Tree = {"queue": Why(gang.queue or "default", "run:/queue", "the Volcano queue")}
    return queue | ({"priorityClassName": Why(run.priority, "run:/priority", "as asked")} if run.priority else {})


SCHEDULERS: Mapping[str, GangScheduler] = {
    "volcano": GangScheduler(
        releases=Releases((1, 8), (1, 15)),
        crd="podgroups.scheduling.volcano.sh",
        labels={"volcano.sh/queue-name": "queue"},
        annotations={
            "scheduling.k8s.io/group-name": "gang",  # volcano.sh/apis, KubeGroupNameAnnotationKey
            "scheduling.volcano.sh/group-name": "gang",
            "scheduling.volcano.sh/queue-name": "queue",
        },
        former_labels=(),
        prefixes=("volcano.sh/", "scheduling.volcano.sh/"),
        group_label=None,
        group_annotation="scheduling.k8s.io/group-name",
        pod_group=_pod_group(
            "scheduling.volcano.sh", "minResources", "networkTopology", "priorityClassName", "subGroupPolicy"
        ),
        version="v1beta1",
        fields=_queue_and_priority,
    ),
    "coscheduling": GangScheduler(
        releases=Releases((0, 27), (0, 33)),  # scheduler-plugins is released by the minor version of Kubernetes
        crd="podgroups.scheduling.x-k8s.io",
        labels={"scheduling.x-k8s.io/pod-group": "gang"},  # and no other (scheduler-plugins, pkg/util/podgroup.go)
        annotations={},
        former_labels=(  # kubernetes-sigs/scheduler-plugins#323
            "scheduling.k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name",
            "pod-group.scheduling.sigs.k8s.io/min-available",
        ),
        prefixes=(),
        group_label="scheduling.x-k8s.io/pod-group",
        group_annotation=None,
        pod_group=_pod_group("scheduling.x-k8s.io", "minResources", "scheduleTimeoutSeconds"),
        version="v1alpha1",
        fields=lambda gang, run: {},
    ),
}
"""By what a profile calls them."""


def _ours(resolution: Resolution) -> GangScheduler | None:
    """The scheduler of a run whose group we write, because its operator makes none."""
    gang = resolution.plan.gang
    return SCHEDULERS[gang.scheduler] if gang and gang.made_by is Gang.OURS else None


def pod_labels(resolution: Resolution) -> Tree:
    """Labels by which the scheduler finds the pods of a group."""
    scheduler = _ours(resolution)
    return {scheduler.group_label: _member(resolution)} if scheduler and scheduler.group_label else {}


def pod_annotations(resolution: Resolution) -> Tree:
    """Annotations by which it finds them."""
    scheduler = _ours(resolution)
    return {scheduler.group_annotation: _member(resolution)} if scheduler and scheduler.group_annotation else {}


def _member(resolution: Resolution) -> Why:
    return Why(resolution.plan.name, "cluster:/scheduling/gang", "the pods that start together")


def pod_group(resolution: Resolution) -> list[Tree]:
    """The PodGroup of a run whose operator makes none."""
    run, plan, gang, scheduler = resolution.run, resolution.plan, resolution.plan.gang, _ours(resolution)
    if gang is None or scheduler is None:
        return []
    return [{
        "apiVersion": scheduler.api_version,
        "kind": scheduler.pod_group.key.kind,
        "metadata": {"name": plan.name, "namespace": namespace_of(plan), "labels": object_labels(run)},
        "spec": {"minMember": Why(gang.minimum, "run:/topology", gang.minimum_reason), **scheduler.fields(gang, run)},
    }]  # fmt: skip
