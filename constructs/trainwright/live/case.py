"""One run in a snapshot: the object that carries it, what controllers made of it, its pods, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from trainwright.live.snapshot import EVENTS_LAST, POD, Object, Snapshot, event_time, time_of
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.labels import MANAGED, ROLE_LABEL, RUN_LABEL, in_foundation
from trainwright.objects.fields import condition, items, mapping, text
from trainwright.operators.operator import Around, makes_pods, pods_wanted, status
from trainwright.operators.phase import Standing

_INDEX = re.compile(r"[^/]+/(job-completion|replica|task)-index")
"""Labels and annotations by which the controllers of Job, of the Training and the MPI operator, and of Volcano number pods."""


@dataclass(frozen=True)
class LivePod:
    """A pod of a run."""

    manifest: Object

    @cached_property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @cached_property
    def role(self) -> str:
        return text(self.manifest, f"/metadata/labels/{ROLE_LABEL.replace('/', '~1')}")

    @cached_property
    def index(self) -> str:
        """Its number in its role, from 0; empty where the operator numbers none."""
        metadata = self.manifest["metadata"]
        stated = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
        return next((str(value) for key, value in stated.items() if _INDEX.fullmatch(key)), "")

    @cached_property
    def slot(self) -> str:
        """What a pod that replaces it has too: the Job controller gives its pods random names."""
        by_job = any(text(owner, "/kind") == "Job" for _, owner in items(self.manifest, "/metadata/ownerReferences"))
        return f"{self.role}-{self.index}" if self.index or by_job else self.name

    @property
    def node(self) -> str:
        return text(self.manifest, "/spec/nodeName")

    @property
    def phase(self) -> str:
        return text(self.manifest, "/status/phase", "Pending")

    @property
    def ended(self) -> bool:
        return self.phase in ("Failed", "Succeeded")

    @property
    def deleting(self) -> bool:
        return "deletionTimestamp" in self.manifest["metadata"]

    @cached_property
    def created(self) -> datetime | None:
        return time_of(text(self.manifest, "/metadata/creationTimestamp"))

    def condition(self, kind: str) -> Mapping[str, Any]:
        return condition(self.manifest, kind)

    @cached_property
    def state(self) -> str:
        """In one word, what it does."""
        if self.ended:
            return self.phase.lower()
        if self.deleting:
            return "terminating"
        if not self.node:
            return "gated" if text(self.condition("PodScheduled"), "/reason") == "SchedulingGated" else "unscheduled"
        if self.phase == "Running":
            return "ready" if text(self.condition("Ready"), "/status") == "True" else "running"
        return "starting"

    def containers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """``init`` or ``main``, and what is known of a container."""
        for field, kind in (("initContainerStatuses", "init"), ("containerStatuses", "main")):
            for _, one in items(self.manifest, f"/status/{field}"):
                yield kind, one


@dataclass(frozen=True)
class Case:
    """A run as it is in the cluster."""

    snapshot: Snapshot
    run: str
    namespace: str
    name: str
    """Of the object that carries it: the run and its identity."""
    kind: GroupKind
    manifest: Object | None
    """None where it is not in the snapshot."""

    @cached_property
    def children(self) -> list[Object]:
        return list(self.snapshot.below(self.manifest)) if self.manifest else []

    @cached_property
    def every_pod(self) -> list[LivePod]:
        """Those that were replaced too, the oldest first."""
        found = [LivePod(one) for one in self.children if GroupKind.of(one) == POD]
        return sorted(found, key=lambda pod: (pod.created or self.snapshot.now, pod.name))

    @cached_property
    def pods(self) -> list[LivePod]:
        """The newest of each slot, in order."""
        newest = {pod.slot: pod for pod in self.every_pod}
        return sorted(newest.values(), key=lambda pod: (pod.role, int(pod.index or 0), pod.name))

    @cached_property
    def replaced(self) -> list[LivePod]:
        newest = set(map(id, self.pods))
        return [pod for pod in self.every_pod if id(pod) not in newest]

    @cached_property
    def standing(self) -> Standing:
        if self.manifest is None:
            return Standing("unknown", "it is not in the cluster")
        return status(self.manifest, [pod.manifest for pod in self.pods], self.wanted)

    @cached_property
    def wanted(self) -> int:
        """Pods that its controller makes; 0 where that is not known."""
        runtimes = [one for one in self.snapshot.objects if str(one["kind"]).endswith("TrainingRuntime")]
        return pods_wanted(self.manifest, Around(objects=runtimes)) if self.manifest else 0

    @cached_property
    def events(self) -> list[Object]:
        """About the object, what was made of it, and pods that are gone; those of an hour before the snapshot."""
        prefix = re.compile(re.escape(self.name) + r"(-.*)?")
        kinds = {"Pod", self.kind.kind, *(str(one["kind"]) for one in self.children), "Workload", "PodGroup", "Job", "JobSet"}
        found = [one for kind in sorted(kinds) for one in self.snapshot.events_like(self.namespace, kind, prefix)]
        names = {("Workload", str(one["metadata"]["name"])) for one in self.children}
        found += [one for kind, name in names for one in self.snapshot.events(self.namespace, kind, name)]
        since = self.snapshot.now - EVENTS_LAST
        unique = {id(one): one for one in found}.values()
        return [one for one in unique if (event_time(one) or since) >= since]

    def label(self, pod: str) -> str:
        """What a person calls a pod, which may be gone, by its name."""
        known = next((one for one in self.every_pod if one.name == pod), None)
        if known:
            return known.index if known.index and known.role in ("node", "") else self._short(pod)
        short = self._short(pod)
        number = re.fullmatch(r"(?:.*-)?(\d+)-[a-z0-9]{5}", short)
        return number[1] if number else short

    def _short(self, pod: str) -> str:
        return pod.removeprefix(f"{self.name}-") or pod

    def named(self, pods: Iterable[str]) -> str:
        """``pod 2``, ``pods 0, 1 and 3``, ``16 pods``."""
        labels = list(dict.fromkeys(map(self.label, pods)))
        if not labels:
            return "no pod"
        if len(labels) > 8:
            return f"{len(labels)} pods"
        return f"pod {labels[0]}" if len(labels) == 1 else f"pods {', '.join(labels[:-1])} and {labels[-1]}"


def carriers(snapshot: Snapshot) -> Iterator[Object]:
    """Objects that carry runs of ours: of a kind that makes pods, labelled, and nobody else's child."""
    for one in snapshot.objects:
        labels = mapping(one, "/metadata/labels")
        owned = any(owner.get("controller") for _, owner in items(one, "/metadata/ownerReferences"))
        if (
            makes_pods(one)
            and not owned
            and MANAGED.items() <= labels.items()
            and labels.get(RUN_LABEL)
            and not in_foundation(one)
        ):
            yield one


def case_of(snapshot: Snapshot, run: str, one: Object) -> Case:
    """The case of an object that is there."""
    metadata = one["metadata"]
    return Case(snapshot, run, str(metadata.get("namespace", "")), str(metadata["name"]), GroupKind.of(one), one)


def others(case: Case) -> Sequence[Object]:
    """Further objects that carry the same run, such as the identity that an edit replaced."""
    found = carriers(case.snapshot)
    return [
        one for one in found
        if mapping(one, "/metadata/labels").get(RUN_LABEL) == case.run and one["metadata"].get("namespace", "") == case.namespace
        and one["metadata"]["name"] != case.name
    ]  # fmt: skip
