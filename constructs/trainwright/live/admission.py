"""Whether a run that is not in the cluster yet would start there now, as far as a snapshot says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from trainwright.live.placement import pool_of, room_in, selector_text, used_by_node
from trainwright.live.snapshot import CLUSTER_QUEUE, KUEUE, LOCAL_QUEUE, NODE, POD, WORKLOAD, Object, Snapshot
from trainwright.objects.fields import condition, items, mapping, text
from trainwright.objects.formats import amount, quantity
from trainwright.objects.requests import requested
from trainwright.operators.operator import Around, makes_pods, pods
from trainwright.units import counted

Verdict = Literal["would start now", "would wait", "never", "cannot be said from here"]
_WORST: Sequence[Verdict] = ("never", "would wait", "cannot be said from here", "would start now")


class Answer(NamedTuple):
    """What is said of one condition of a start."""

    verdict: Verdict
    says: str


def admission(snapshot: Snapshot, written: Sequence[Object]) -> list[Answer]:
    """One answer for each thing that a run needs: its queue, and room for its pods. The worst of them is that of the run.

    Args:
        snapshot: of the cluster.
        written: the objects of the run's file, and of its foundation.
    """
    carrier = next(one for one in written if makes_pods(one) and mapping(one, "/metadata/labels").get("app.kubernetes.io/name"))
    runtimes = [one for one in written if str(one["kind"]).endswith("TrainingRuntime")]
    try:
        specs: list[Mapping[str, Any]] = [pod.spec for pod in pods(carrier, Around(objects=runtimes)).pods]
    except (LookupError, TypeError, ValueError) as error:
        return [Answer("cannot be said from here", f"its pods are not known: {error}")]
    return [*_queue(snapshot, carrier, specs), *_room(snapshot, specs)]


def worst(answers: Sequence[Answer]) -> Verdict:
    return min((one.verdict for one in answers), key=_WORST.index, default="cannot be said from here")


def _room(snapshot: Snapshot, specs: Sequence[Mapping[str, Any]]) -> Iterator[Answer]:
    """Room on the nodes, for all pods of a kind at the same time."""
    nodes = snapshot.of(NODE)
    if not nodes:
        yield Answer("cannot be said from here", "the snapshot has no nodes")
        return
    used = used_by_node(snapshot.of(POD))
    asks_of = [(selector_text(spec), tuple(sorted(requested([(1, spec)], "requests", "limits").items()))) for spec in specs]
    groups = Counter(asks_of)
    for (pool, asked), number in groups.items():
        spec = specs[asks_of.index((pool, asked))]
        there, wanted = pool_of(spec, nodes), dict(asked)
        names = {str(node["metadata"]["name"]): node for node in there.open}
        free = {name: room_in(node, wanted, used.get(name, {})) for name, node in names.items()}
        empty, now = sum(room_in(node, wanted) for node in there.nodes), sum(free.values())
        asks = ", ".join(f"{value} {name}" for name, value in asked if amount(value))
        fits = ", ".join(f"{name} {count}" for name, count in free.items() if count) or "none"
        what = f"{counted(number, 'pod')} of {asks} on nodes with {pool}: "
        what += f"room for {now} on {counted(len(there.open), 'open node')} ({fits})"
        if now >= number:
            unknown = _unsaid(snapshot, spec)
            yield Answer("cannot be said from here", f"{what}; {unknown}") if unknown else Answer("would start now", what)
        elif empty >= number:
            below = _below(snapshot, spec, there.nodes)
            yield Answer("would wait", f"{what}; room for {number - now} more must become free{below}")
        else:
            nodes_all = counted(len(there.nodes), "node")
            yield Answer("never", f"{what}; {nodes_all} in all, with room for {empty} when empty")


def _unsaid(snapshot: Snapshot, spec: Mapping[str, Any]) -> str:
    """What stands between room and a start, and cannot be told; empty where nothing does."""
    if not snapshot.collected or "pods of other namespaces" in snapshot.lacks:
        return "what pods of other namespaces take is not in the snapshot"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    near = [kind for kind in ("podAffinity", "podAntiAffinity") if mapping(spec, f"/affinity/{kind}").get(required)]
    near += ["topologySpreadConstraints"] if spec.get("topologySpreadConstraints") else []
    return f"whether it is where {' and '.join(near)} want it is the scheduler's to say" if near else ""


def _below(snapshot: Snapshot, spec: Mapping[str, Any], nodes: Sequence[Object]) -> str:
    """Pods of lower priority on these nodes, which the scheduler may take away for it."""
    known = (one for one in snapshot.objects if one["kind"] == "PriorityClass")
    classes = {str(one["metadata"]["name"]): int(one.get("value", 0)) for one in known}
    own = classes.get(text(spec, "/priorityClassName"), 0)
    names = {str(node["metadata"]["name"]) for node in nodes}
    lower = [
        str(pod["metadata"]["name"]) for pod in snapshot.of(POD)
        if text(pod, "/spec/nodeName") in names and int(pod["spec"].get("priority") or 0) < own
        and text(pod, "/status/phase") not in ("Failed", "Succeeded")
    ]  # fmt: skip
    return f"; of lower priority there: {', '.join(lower[:5])}{' …' if len(lower) > 5 else ''}" if lower else ""


def _queue(snapshot: Snapshot, carrier: Object, specs: Sequence[Mapping[str, Any]]) -> Iterator[Answer]:
    """The queue of Kueue that it names, if any: whether it admits, what is left, and who is ahead."""
    name, namespace = (
        mapping(carrier, "/metadata/labels").get(f"{KUEUE}/queue-name"),
        str(carrier["metadata"].get("namespace", "")),
    )
    if not name:
        return
    local = snapshot.get(LOCAL_QUEUE, namespace, str(name))
    cluster = snapshot.get(CLUSTER_QUEUE, "", text(local or {}, "/spec/clusterQueue"))
    if local is None or cluster is None:
        missing = f"LocalQueue {name}" if local is None else f"ClusterQueue {text(local, '/spec/clusterQueue')}"
        known = snapshot.has(LOCAL_QUEUE if local is None else CLUSTER_QUEUE)
        if known:
            yield Answer("would wait", f"{missing} is not in the cluster")
        else:
            yield Answer("cannot be said from here", f"{missing} is not in the snapshot")
        return
    for one in (local, cluster):
        if text(one, "/spec/stopPolicy") not in ("", "None"):
            yield Answer("would wait", f"{one['kind']} {one['metadata']['name']} is stopped ({text(one, '/spec/stopPolicy')})")
    asked = requested([(1, spec) for spec in specs], "requests", "limits")
    quota, used = _quota(cluster), _usage(cluster)
    for resource, value in asked.items():
        wanted, all_of_it = amount(value) or Decimal(), quota.get(resource)
        if all_of_it is None or not wanted:
            continue
        left, queue = all_of_it - used.get(resource, Decimal()), cluster["metadata"]["name"]
        says = f"ClusterQueue {queue} has {quantity(left, value)} of {quantity(all_of_it, value)} {resource} left"
        says += f", and it asks for {value}"
        if wanted > all_of_it and not text(cluster, "/spec/cohortName") and not text(cluster, "/spec/cohort"):
            yield Answer("never", says)
        elif wanted > left:
            yield Answer("would wait", says)
        else:
            yield Answer("would start now", says)
    queued = [one for one in snapshot.of(WORKLOAD, namespace) if _waits(one) and text(one, "/spec/queueName") == name]
    ahead = [str(one["metadata"]["name"]) for one in queued]
    if ahead:
        strict = text(cluster, "/spec/queueingStrategy") == "StrictFIFO"
        says = f"ahead of it in LocalQueue {name}: {', '.join(ahead)}"
        yield (
            Answer("would wait", says) if strict else Answer("cannot be said from here", f"{says}, which go first where they fit")
        )


def _quota(cluster: Object) -> dict[str, Decimal]:
    groups = (group for _, group in items(cluster, "/spec/resourceGroups"))
    return _summed((flavor for group in groups for _, flavor in items(group, "/flavors")), "nominalQuota")


def _usage(cluster: Object) -> dict[str, Decimal]:
    return _summed((flavor for _, flavor in items(cluster, "/status/flavorsReservation")), "total")


def _summed(flavors: Iterable[Mapping[str, Any]], field: str) -> dict[str, Decimal]:
    """Resource -> its amount in all flavors together."""
    found: dict[str, Decimal] = {}
    for flavor in flavors:
        for _, one in items(flavor, "/resources"):
            name = text(one, "/name")
            found[name] = found.get(name, Decimal()) + (amount(one.get(field)) or Decimal())
    return found


def _waits(workload: Object) -> bool:
    past = any(text(condition(workload, kind), "/status") == "True" for kind in ("QuotaReserved", "Finished"))
    return mapping(workload, "/spec").get("active") is not False and not past
