"""Whether a run that is not in the cluster yet would start there now, as far as a snapshot says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from trainwright.cluster.addons import ClusterQueue
from trainwright.live.placement import pool_of, room_in, selector_text, tolerated, used_by_node
from trainwright.live.snapshot import CLUSTER_QUEUE, KUEUE, LOCAL_QUEUE, NODE, POD, WORKLOAD, Object, Snapshot
from trainwright.manifest.kinds import GroupKind
from trainwright.objects.fields import condition, items, mapping, text
from trainwright.objects.formats import amount, quantity
from trainwright.objects.requests import requested
from trainwright.operators.operator import Around, Pod, makes_pods, pods
from trainwright.operators.quota import Offer, beyond, of_kueue
from trainwright.units import counted

FLAVOR = GroupKind(KUEUE, "ResourceFlavor")
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
        made = pods(carrier, Around(objects=runtimes)).pods
    except (LookupError, TypeError, ValueError) as error:
        return [Answer("cannot be said from here", f"its pods are not known: {error}")]
    return [*_queue(snapshot, carrier, made), *_room(snapshot, [pod.spec for pod in made])]


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


def _queue(snapshot: Snapshot, carrier: Object, made: Sequence[Pod]) -> Iterator[Answer]:
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
    yield from _quota(snapshot, str(cluster["metadata"]["name"]), made)
    queued = [one for one in snapshot.of(WORKLOAD, namespace) if _waits(one) and text(one, "/spec/queueName") == name]
    ahead = [str(one["metadata"]["name"]) for one in queued]
    if ahead:
        strict = text(cluster, "/spec/queueingStrategy") == "StrictFIFO"
        says = f"ahead of it in LocalQueue {name}: {', '.join(ahead)}"
        yield (
            Answer("would wait", says) if strict else Answer("cannot be said from here", f"{says}, which go first where they fit")
        )


def _quota(snapshot: Snapshot, name: str, made: Sequence[Pod]) -> Iterator[Answer]:
    """What its ClusterQueue could give now, for the pods of each role and for all of them, of each resource of its quota."""
    objects = {str(one["metadata"]["name"]): one for one in snapshot.of(CLUSTER_QUEUE)}
    used = {queue: _used(one) for queue, one in objects.items()}
    try:
        given = list(of_kueue(name, {queue: _as_stated(one) for queue, one in objects.items()}, used))
    except ValidationError:
        yield Answer("cannot be said from here", f"the quota of ClusterQueue {name} cannot be read")
        return
    roles: dict[str, list[Pod]] = {}
    for pod in made:
        roles.setdefault(pod.role, []).append(pod)
    for resource in dict.fromkeys(one.resource for one in given):
        offered = {one.flavor: one for one in given if one.resource == resource}
        for role, own in roles.items() if len(roles) > 1 else ():
            wanted = _asked(own, resource)
            fitting = [one for one in offered.values() if _takes(snapshot, one.flavor, own[0].spec)]
            if amount(wanted):
                yield _of_flavors(name, f"{wanted} {resource} for role {role}", wanted, fitting)
        usable = [one for one in offered.values() if any(_takes(snapshot, one.flavor, own[0].spec) for own in roles.values())]
        total = _asked(made, resource)
        if amount(total):
            together = usable if len(roles) == 1 else [_summed(usable)] if usable else []
            yield _of_flavors(name, f"{total} {resource}", total, together)


def _asked(pods: Sequence[Pod], resource: str) -> str:
    if resource == "pods":
        return str(len(pods))
    return requested([(1, pod.spec) for pod in pods], "requests", "limits").get(resource, "0")


def _summed(offered: Sequence[Offer]) -> Offer:
    """Several flavors together, each of which may have pods of other roles."""

    def whole(limits: Sequence[Decimal | None]) -> Decimal | None:
        known = [limit for limit in limits if limit is not None]
        return sum(known, Decimal()) if len(known) == len(limits) else None

    return offered[0]._replace(
        flavor=" and ".join(one.flavor for one in offered), nominal=sum((one.nominal for one in offered), Decimal()),
        most=whole([one.most for one in offered]), reach=whole([one.reach for one in offered]),
        free=whole([one.free for one in offered]),
    )  # fmt: skip


def _of_flavors(name: str, what: str, asked: str, offered: Sequence[Offer]) -> Answer:
    number = amount(asked) or Decimal()
    if not offered:
        return Answer("never", f"no flavor of ClusterQueue {name} has nodes for {what}")
    best = max(offered, key=lambda one: one.free or Decimal())
    free, nominal = (quantity(one or Decimal(), asked) for one in (best.free, best.nominal))
    says = f"ClusterQueue {name} has {free} of {nominal} left in flavor {best.flavor}, and it asks for {what}"
    if above := beyond(number, offered):
        most = f"{says}; it can have {quantity(above[0], asked)} at most"
        return Answer("never", most) if above[1] else Answer("cannot be said from here", f"{most} of the queues that are here")
    return Answer("would start now" if number <= (best.free or Decimal()) else "would wait", says)


def _as_stated(queue: Object) -> ClusterQueue:
    """A ClusterQueue of the cluster as a profile states one."""
    flavors: dict[str, Any] = {}
    for _, group in items(queue, "/spec/resourceGroups"):
        for _, flavor in items(group, "/flavors"):
            quotas = flavors.setdefault(text(flavor, "/name"), {"resources": {}})["resources"]
            for _, one in items(flavor, "/resources"):
                limits = {key: one.get(f"{key}Limit") for key in ("borrowing", "lending")}
                stated = {f"{key}_limit": str(value) for key, value in limits.items() if value is not None}
                quotas[text(one, "/name")] = {"nominal": str(one.get("nominalQuota", "0")), **stated}
    cohort = text(queue, "/spec/cohortName") or text(queue, "/spec/cohort")
    return ClusterQueue.model_validate({"cohort": cohort or None, "flavors": flavors})


def _used(queue: Object) -> dict[tuple[str, str], Decimal]:
    return {
        (text(flavor, "/name"), text(one, "/name")): amount(one.get("total")) or Decimal()
        for _, flavor in items(queue, "/status/flavorsReservation") for _, one in items(flavor, "/resources")
    }  # fmt: skip


def _takes(snapshot: Snapshot, name: str, spec: Mapping[str, Any]) -> bool:
    """Whether pods may go to the nodes of a flavor: by its labels that they select by, and its taints
    (kubernetes-sigs/kueue, pkg/scheduler/flavorassigner); one that is not in the snapshot may take any.
    """
    flavor = mapping(snapshot.get(FLAVOR, "", name), "/spec")
    labels, own = mapping(flavor, "/nodeLabels"), {"tolerations": [*spec.get("tolerations", ()), *flavor.get("tolerations", ())]}
    selected = mapping(spec, "/nodeSelector")
    return all(selected[key] == value for key, value in labels.items() if key in selected) and all(
        tolerated(taint, own) for _, taint in items(flavor, "/nodeTaints") if text(taint, "/effect") != "PreferNoSchedule"
    )


def _waits(workload: Object) -> bool:
    past = any(text(condition(workload, kind), "/status") == "True" for kind in ("QuotaReserved", "Finished"))
    return mapping(workload, "/spec").get("active") is not False and not past
