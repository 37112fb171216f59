"""One state of a cluster, from which every command that reads a cluster works: objects, events, ends of logs, metrics.

A file that holds one is a ``List`` as ``kubectl get … -o json`` writes it. ``trainwright collect`` adds a key ``collected`` with
what no object says: when it was taken, which kinds were asked for and not allowed or not there, log ends, and metrics.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from trainwright.manifest.kinds import GroupKind
from trainwright.objects.fields import items, mapping, text

Object = Mapping[str, Any]

KUEUE = "kueue.x-k8s.io"
POD, NODE, EVENT = GroupKind("", "Pod"), GroupKind("", "Node"), GroupKind("", "Event")
CLAIM, SERVICE, CONFIG = GroupKind("", "PersistentVolumeClaim"), GroupKind("", "Service"), GroupKind("", "ConfigMap")
NETWORK_POLICY = GroupKind("networking.k8s.io", "NetworkPolicy")
WORKLOAD, LOCAL_QUEUE = GroupKind(KUEUE, "Workload"), GroupKind(KUEUE, "LocalQueue")
CLUSTER_QUEUE = GroupKind(KUEUE, "ClusterQueue")

_RARELY_ASKED = (CLAIM, CONFIG, NETWORK_POLICY, GroupKind("", "ServiceAccount"), GroupKind("", "Secret"))
WIDE = 2

EVENTS_LAST = timedelta(hours=1)
"""How long an API server keeps an event (``--event-ttl``)."""


class SnapshotError(Exception):
    """A file that is no snapshot; the message says why, and how to make one."""


@dataclass(frozen=True)  # without slots, so that indexes can be kept
class Snapshot:
    """What is known of a cluster. What is not in it is missing, or was not asked for: see :meth:`has`."""

    objects: Sequence[Object]
    taken: datetime | None = None
    """None where nothing says it, as in a plain list."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """What was asked for and did not come, such as ``Node`` or ``JobSet.jobset.x-k8s.io`` -> why."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """``pod/container`` -> the last lines of its log."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Pod -> its metrics in Prometheus' text format."""
    ledgers: Mapping[str, str] = field(default_factory=dict)
    """Name of the object that carries a run -> the ledger beside its checkpoints."""
    collected: bool = False
    """Whether ``trainwright collect`` took it, so that a kind without an object is one of which there is none."""

    @cached_property
    def now(self) -> datetime:
        """When it was taken; of a plain list the latest time that an object states."""
        return self.taken or max((time for one in self.objects for time in _times(one)), default=datetime.now(UTC))

    @cached_property
    def _by_kind(self) -> Mapping[GroupKind, Sequence[Object]]:
        found: dict[GroupKind, list[Object]] = defaultdict(list)
        for one in self.objects:
            found[GroupKind.of(one)].append(one)
        return found

    def of(self, kind: GroupKind, namespace: str | None = None) -> list[Object]:
        """Objects of a kind, in a namespace or everywhere."""
        found = self._by_kind.get(kind, ())
        return [one for one in found if namespace is None or one["metadata"].get("namespace", "") == namespace]

    def get(self, kind: GroupKind, namespace: str, name: str) -> Object | None:
        return next((one for one in self.of(kind, namespace) if one["metadata"]["name"] == name), None)

    def has(self, kind: GroupKind) -> bool:
        """Whether an object of a kind that is not here does not exist: a plain list may just not have been asked for it.

        One that has several of the kinds that `kubectl get all` leaves out was asked for all of these.
        """
        if self.collected:
            return kind.kind not in self.lacks and str(kind) not in self.lacks
        return kind in self._by_kind or (self._wide and kind in (*_RARELY_ASKED, SERVICE))

    @cached_property
    def _wide(self) -> bool:
        return sum(one in self._by_kind for one in _RARELY_ASKED) >= WIDE

    def asked(self, kind: GroupKind) -> bool:
        """Whether it was asked for events or a kind that carries runs: so was a list with more than `kubectl get all` has."""
        return self.has(kind) or (self._wide and not self.collected)

    @cached_property
    def _children(self) -> Mapping[str, Sequence[Object]]:
        found: dict[str, list[Object]] = defaultdict(list)
        for one in self.objects:
            for _, owner in items(one, "/metadata/ownerReferences"):
                found[text(owner, "/uid")].append(one)
        return found

    def below(self, owner: Object) -> Iterator[Object]:
        """What an object's controller made, and what became of that."""
        for one in self._children.get(text(owner, "/metadata/uid"), ()):
            yield one
            yield from self.below(one)

    @cached_property
    def _events(self) -> Mapping[tuple[str, str, str], Sequence[Object]]:
        found: dict[tuple[str, str, str], list[Object]] = defaultdict(list)
        for one in self.of(EVENT):
            about = mapping(one, "/involvedObject")
            found[text(about, "/namespace"), text(about, "/kind"), text(about, "/name")].append(one)
        return found

    def events(self, namespace: str, kind: str, name: str) -> Sequence[Object]:
        """Those about an object, which may be gone."""
        return self._events.get((namespace, kind, name), ())

    def events_like(self, namespace: str, kind: str, names: re.Pattern[str]) -> Iterator[Object]:
        """Those about objects of a kind whose names match."""
        for (where, what, name), events in self._events.items():
            if (where, what) == (namespace, kind) and names.fullmatch(name):
                yield from events


def time_of(value: object) -> datetime | None:
    """A time as Kubernetes writes it."""
    if not isinstance(value, str) or not re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", value):
        return None
    return datetime.fromisoformat(f"{value[:19]}+00:00")


def event_time(event: Object) -> datetime | None:
    """When it happened last."""
    last = text(event, "/lastTimestamp") or text(event, "/series/lastObservedTime") or text(event, "/eventTime")
    return time_of(last or text(event, "/metadata/creationTimestamp"))


def _times(one: Object) -> Iterator[datetime]:
    """Those that controllers and kubelets wrote."""
    stated = [text(one, "/metadata/creationTimestamp"), text(one, "/lastTimestamp"), text(one, "/eventTime")]
    for _, condition in items(one, "/status/conditions"):
        stated += [text(condition, "/lastTransitionTime"), text(condition, "/lastHeartbeatTime")]
    for _, container in items(one, "/status/containerStatuses"):
        stated += [text(container, "/state/terminated/finishedAt"), text(container, "/state/running/startedAt")]
    yield from (time for value in stated if (time := time_of(value)))


def read_snapshot(path: Path) -> Snapshot:
    """A file of ``trainwright collect`` or of ``kubectl get -o json``.

    Raises:
        SnapshotError: for any other file, and for one that cannot be read.
    """
    how = "write one with `trainwright collect FILE`, or `kubectl get …,events --output json > FILE`"
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read: {error.strerror}; {how}") from error
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{path} is not JSON: {error}; {how}") from error
    if not isinstance(data, dict) or not str(data.get("kind", "")).endswith("List") or not isinstance(data.get("items"), list):
        raise SnapshotError(f"{path} is not a list of Kubernetes objects; {how}")
    return of_list(data)


def of_list(data: Mapping[str, Any]) -> Snapshot:
    """The snapshot that a list holds."""
    extra = mapping(data, "/collected")
    return Snapshot(
        tuple(_objects(data["items"], str(data["kind"]).removesuffix("List"), str(data.get("apiVersion", "v1")))),
        time_of(text(extra, "/taken")),
        mapping(extra, "/lacks"),
        mapping(extra, "/logs"),
        mapping(extra, "/metrics"),
        mapping(extra, "/ledgers"),
        bool(extra),
    )


def _objects(listed: Iterable[Any], kind: str, version: str) -> Iterator[Object]:
    """Those that have a kind and a name; the items of a ``PodList`` do not say what they are."""
    for one in listed:
        if not isinstance(one, dict):
            continue
        whole = one if "kind" in one or not kind else {"apiVersion": version, "kind": kind, **one}
        if text(whole, "/metadata/name") and text(whole, "/kind") and text(whole, "/apiVersion"):
            yield whole if GroupKind.of(whole) != GroupKind("events.k8s.io", "Event") else _as_core(whole)


def _as_core(event: Object) -> Object:
    """An event of ``events.k8s.io`` in the words of the core group."""
    renamed = {"involvedObject": event.get("regarding", {}), "message": event.get("note", "")}
    return {**event, "apiVersion": "v1", **renamed}
