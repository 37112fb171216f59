"""What a snapshot says of a run, as flat facts that rows of causes ask for.

Fields are texts, and one that is not there is empty. The kinds:

- ``object``: the one that carries the run. ``kind``, ``group``, ``name``, each plain value of its spec and status, ``deleting``,
  ``late`` (for how long, where too long), ``held`` (finalizers that keep it), ``suspended``, ``queue`` (of Kueue), ``acted``
  (whether its controller has), ``young`` (so new that its controller may not have come to it), ``old`` (older than events
  last), ``told`` (whether events are in the snapshot), ``workload`` (of Kueue; ``none`` where there is none).
- ``gone``: in its place where it is not there. ``asked`` (whether the snapshot would have it).
- ``condition``: of it, of what its controllers made, of its Workload, PodGroup and queues. ``of``, ``name``, ``type``,
  ``status``, ``reason``, ``message``; ``type`` is ``Phase`` of a phase, ``AdmissionCheck`` of Kueue's checks, ``Stopped`` of what
  somebody has stopped.
- ``event``: ``of``, ``name``, ``reason``, ``type``, ``message``; about a pod also ``pod``, ``label``, and ``gone`` where there is
  no such pod.
- ``made``: ``missing`` pods, if any, and how many are ``there`` and ``running``.
- ``pod``: the newest of each slot. ``pod``, ``role``, ``label``, ``state``, ``node``, ``unready`` and ``cordoned`` (its node),
  ``why`` and ``words`` of its DisruptionTarget, ``deleting``, ``held`` (finalizers), ``kubelet`` and ``said`` (of its status).
- ``container``: of such a pod, one that waits. ``pod``, ``name``, ``reason``, ``message``, ``image``, ``differs`` from ``dist/``,
  ``variable`` that the message is about, ``node``, ``arch``, ``restarts``, ``code``, ``kubelet`` and ``last`` of its last end.
- ``awaits``: an init container that runs. ``pod``, ``name``.
- ``short``: why pods have no node (:mod:`trainwright.live.placement`).
- ``end``: the pod that failed first. ``pod``, ``label``, ``node``, ``code``, ``ours``, ``kind``, ``message``, ``word``,
  ``meaning``, ``remedy``, ``permanent``, ``kubelet`` (its reason), ``rank``, ``steps``, ``committed``, ``who`` (ended alike),
  ``followers``, ``why`` (its DisruptionTarget), ``told`` (who tells of it), ``log`` (its last line), ``signal``.
- ``before``: the same of pods that were replaced since.
- ``claim``: that its pods mount. ``name``, ``phase``, ``modes``, ``class``, ``provisioner``, ``chosen`` (its node).
- ``absent``, ``present``: objects of the run's files. ``kind``, ``name``, ``of`` (``run`` or ``foundation``).
- ``policy``: NetworkPolicies that keep its pods from each other. ``name``, ``direction``.
- ``other``: another object of the same run. ``name``, ``kind``, ``phase``.
- ``pace``: what a step of a run that trains goes into. ``seconds``, ``parts``, ``rank`` and ``ratio`` (the slowest), ``slow``
  (how many are, where any), and shares where they are large: ``data``, ``others`` (collectives), ``stands`` (saves, evaluations);
  ``goodput`` where it is low after so many ``attempts``.
- ``fetch``: a Job that fetches data. ``name``, ``state``, ``message`` of its last pod, ``node`` (state of its pod), ``waits``
  (why its pod cannot start).
- ``node``: of a pod, or where one was. ``name``, ``ready``, ``taint`` (NoExecute, and not tolerated), ``cordoned``, ``arch``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from trainwright.live.case import Case, others
from trainwright.live.ends import first_failure
from trainwright.live.network import policy_facts
from trainwright.live.placement import placement_facts, tolerated
from trainwright.live.pods import arch, container_facts, end_facts, fetch_facts, foreign, pod_facts, yes
from trainwright.live.rows import Fact, Facts
from trainwright.live.scrape import pace_facts
from trainwright.live.snapshot import (
    CLAIM,
    CLUSTER_QUEUE,
    EVENT,
    EVENTS_LAST,
    LOCAL_QUEUE,
    NODE,
    POD,
    WORKLOAD,
    Object,
    event_time,
    time_of,
)
from trainwright.manifest.kinds import GroupKind, ObjectKey
from trainwright.manifest.labels import in_foundation
from trainwright.manifest.pods import pods_in
from trainwright.objects.fields import condition, items, mapping, text, texts, whole
from trainwright.operators.operator import status

_QUEUE = "kueue.x-k8s.io/queue-name"
_OF_KUEUE = ("CreatedWorkload", "UpdatedWorkload", "DeletedWorkload", "Started", "Stopped", "FinishedWorkload")
"""Reasons of events that Kueue writes for the object itself (kubernetes-sigs/kueue, pkg/controller/jobframework/events.go)."""
_UNHURRIED = timedelta(minutes=10)
"""More than controllers take for a deletion beside the grace period of the pods."""
_YOUNG = timedelta(minutes=1)
"""More than a controller that runs takes to come to an object, and than lies between the readings of two kinds."""
_STALE = timedelta(minutes=1)
"""A pod that was made, or failed, so long after an event is no consequence of it."""
_STARTED = ("Pulling", "Pulled", "Created", "Started")
"""What the kubelet says of a pod's containers, which come after its volumes and its network (kubernetes, pkg/kubelet/events)."""
_BEFORE_START = ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady")
_OVERCOME = {
    "FailedScheduling": ("Scheduled", *_STARTED),
    **dict.fromkeys(_BEFORE_START, _STARTED),
    **dict.fromkeys(("FailedToRetrieveImagePullSecret", "Failed", "BackOff"), _STARTED[1:]),
}
"""Reason of a warning about a pod -> reasons of events that show, when they come later, that it is over."""
_HARMLESS = ("DNSConfigForming",)
"""Warnings with which pods run: more name servers than a pod can have (kubernetes, pkg/kubelet/network/dns)."""


def facts_of(case: Case, written: Sequence[Object] = ()) -> Facts:
    """All of them, by kind.

    Args:
        case: the run.
        written: objects of its files in ``dist/``, those of its foundation among them.
    """
    found: dict[str, list[Fact]] = defaultdict(list)
    parts = (
        _object(case), _conditions(case), _events(case), _made(case), pod_facts(case), container_facts(case, written),
        placement_facts(case), end_facts(case), _claims(case), _absent(case, written), policy_facts(case), _others(case),
        fetch_facts(case), _nodes(case), pace_facts(case),
    )  # fmt: skip
    for part in parts:
        for fact in part:
            found[fact.kind].append(fact)
    return found


def common(case: Case) -> dict[str, str]:
    """What every sentence may name."""
    return {
        "run": case.run, "object": f"{case.kind.kind} {case.name}", "kind": case.kind.kind, "name": case.name,
        "namespace": case.namespace, "all": str(max(case.wanted, len(case.pods), 1)),
    }  # fmt: skip


def _object(case: Case) -> Iterator[Fact]:
    if case.manifest is None:
        asked = case.snapshot.asked(case.kind)
        yield Fact("gone", {"asked": yes(asked)}, f"no {case.kind.kind}/{case.name} in {case.namespace}")
        return
    metadata, spec = case.manifest["metadata"], mapping(case.manifest, "/spec")
    suspended = spec.get("suspend") is True or mapping(spec, "/runPolicy").get("suspend") is True
    # Kueue's part says nothing of the object's own controller
    children = [one for one in case.children if GroupKind.of(one) != WORKLOAD]
    events = [
        one for one in case.events if text(one, "/involvedObject/kind") != "Workload" and text(one, "/reason") not in _OF_KUEUE
    ]
    acted = bool(case.manifest.get("status")) or bool(children) or bool(events)
    made, taken = time_of(text(metadata, "/creationTimestamp")), case.snapshot.taken
    workloads = [str(one["metadata"]["name"]) for one in case.children if GroupKind.of(one) == WORKLOAD]
    of_queues = (WORKLOAD,) if case.snapshot.collected else (WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE)
    known = any(map(case.snapshot.has, of_queues))
    stated = (spec, mapping(case.manifest, "/status"))
    fields = {
        **{key: str(value) for part in stated for key, value in part.items() if isinstance(value, str | int)},
        "kind": case.kind.kind, "group": case.kind.group, "name": case.name, "deleting": yes("deletionTimestamp" in metadata),
        "held": ", ".join(foreign(texts(metadata, "/finalizers"))), "late": _late(case), "suspended": yes(suspended),
        "queue": text(metadata, f"/labels/{_QUEUE.replace('/', '~1')}"), "acted": yes(acted),
        "young": yes(made is not None and taken is not None and taken - made < _YOUNG),
        "old": yes(made is not None and case.snapshot.now - made > EVENTS_LAST), "told": yes(case.snapshot.asked(EVENT)),
        "workload": ", ".join(workloads) or ("none" if known else ""),
    }  # fmt: skip
    yield Fact("object", fields, f"{case.kind.kind}/{case.name}: {_shown_object(fields)}")


def _late(case: Case) -> str:
    """For how long it has been deleted, where that is longer than its pods have to end, with some minutes for all else."""
    asked = time_of(text(case.manifest or {}, "/metadata/deletionTimestamp"))
    specs = [pod.manifest["spec"] for pod in case.pods] + [found.spec for found in pods_in(case.manifest or {})]
    grace = max((whole(spec, "/terminationGracePeriodSeconds", 30) or 0 for spec in specs), default=30)
    if asked is None or case.snapshot.now - asked <= timedelta(seconds=grace) + _UNHURRIED:
        return ""
    return f"{(case.snapshot.now - asked).total_seconds() / 60:.0f} min"


def _shown_object(fields: Mapping[str, str]) -> str:
    parts = [
        "deletionTimestamp is set" if fields["deleting"] else "", "suspend: true" if fields["suspended"] else "",
        f"queue {fields['queue']}" if fields["queue"] else "no queue of Kueue" if fields["suspended"] else "",
        "" if fields["acted"] else "no status, no pods, no events",
    ]  # fmt: skip
    return ", ".join(filter(None, parts)) or "is there"


def _conditions(case: Case) -> Iterator[Fact]:
    about = [case.manifest, *(one for one in case.children if GroupKind.of(one) != POD)] if case.manifest else []
    queue = text(case.manifest or {}, f"/metadata/labels/{_QUEUE.replace('/', '~1')}")
    for local in case.snapshot.of(LOCAL_QUEUE, case.namespace) if queue else ():
        if local["metadata"]["name"] == queue:
            about.append(local)
            about += [
                one for one in case.snapshot.of(CLUSTER_QUEUE) if one["metadata"]["name"] == text(local, "/spec/clusterQueue")
            ]
    groups = [
        one for one in case.snapshot.objects if one["kind"] == "PodGroup" and one["metadata"].get("namespace") == case.namespace
    ]
    about += [one for one in groups if str(one["metadata"]["name"]) == case.name and one not in about]
    queues = {text(one, "/spec/queue") for one in about if one and one["kind"] == "PodGroup"}
    about += [one for one in case.snapshot.objects if one["kind"] == "Queue" and str(one["metadata"]["name"]) in queues]
    for one in about:
        yield from _conditions_of(one)


def _conditions_of(one: Object) -> Iterator[Fact]:
    kind, name = str(one["kind"]), str(one["metadata"]["name"])
    for _, stated in items(one, "/status/conditions"):
        fields = {key: text(stated, f"/{key}") for key in ("type", "status", "reason", "message")}
        shows = f"{kind}/{name}: {fields['type']}={fields['status']} {fields['reason']}: {fields['message']}".rstrip(": ")
        yield Fact("condition", {"of": kind, "name": name, **fields}, shows)
    state = (
        text(one, "/status/state/phase")
        or text(one, "/status/state")
        or text(one, "/status/phase")
        or text(one, "/status/jobDeploymentStatus")
    )
    if state:
        message = text(one, "/status/state/message") or text(one, "/status/message")
        fields = {
            "of": kind,
            "name": name,
            "type": "Phase",
            "status": state,
            "reason": text(one, "/status/reason"),
            "message": message,
        }
        yield Fact("condition", fields, f"{kind}/{name}: {state} {message}".strip())
    for _, check in items(one, "/status/admissionChecks"):
        fields = {
            "type": "AdmissionCheck",
            "status": text(check, "/state"),
            "reason": text(check, "/name"),
            "message": text(check, "/message"),
        }
        yield Fact(
            "condition",
            {"of": kind, "name": name, **fields},
            f"{kind}/{name}: check {fields['reason']} {fields['status']}: {fields['message']}",
        )
    if text(one, "/spec/stopPolicy") not in ("", "None") or mapping(one, "/spec").get("active") is False:
        policy = text(one, "/spec/stopPolicy") or "active: false"
        yield Fact(
            "condition",
            {"of": kind, "name": name, "type": "Stopped", "status": "True", "reason": policy, "message": ""},
            f"{kind}/{name}: {policy}",
        )


def _events(case: Case) -> Iterator[Fact]:
    """Those that still matter: a pod whose slot runs again, or that was made since it was refused, is a matter of the past."""
    made = max((pod.created for pod in case.every_pod if pod.created), default=None)
    failure = first_failure([pod for pod in case.pods if pod.phase == "Failed"])
    there = {pod.name: pod for pod in case.every_pod}
    well = {case.label(pod.name) for pod in case.pods if pod.state in ("ready", "succeeded")}
    complete = bool(case.wanted) and len(case.pods) >= case.wanted
    since = max((time for time in (made, failure.at if failure else None) if time), default=case.snapshot.now)
    steps = _steps(case)
    for event in case.events:
        kind, name = text(event, "/involvedObject/kind"), text(event, "/involvedObject/name")
        fields = {"of": kind, "name": name, **{key: text(event, f"/{key}") for key in ("reason", "type", "message")}}
        at = event_time(event)
        if kind != "Pod" and fields["type"] == "Warning" and at and made and (made - at > _STALE or (complete and since > at)):
            continue
        if kind == "Pod":
            if case.label(name) in well or (at and failure and failure.at and failure.at - at > _STALE):
                continue
            if fields["reason"] in _HARMLESS or _overcome(fields["reason"], at, steps.get(name, ())):
                continue
            uid = text(event, "/involvedObject/uid")
            pod = there.get(name)
            gone = pod is None or (uid and uid != text(pod.manifest, "/metadata/uid"))
            fields |= {"pod": name, "gone": yes(gone), "label": case.label(name)}
        yield Fact("event", fields, f"event {fields['reason']} of {kind}/{name}: {fields['message'].strip()}")


def _steps(case: Case) -> Mapping[str, Sequence[tuple[str, datetime]]]:
    """Pod -> what it has come to, and when last."""
    found: dict[str, list[tuple[str, datetime]]] = defaultdict(list)
    for event in case.events:
        at, reason = event_time(event), text(event, "/reason")
        if at and text(event, "/involvedObject/kind") == "Pod" and reason in ("Scheduled", *_STARTED):
            found[text(event, "/involvedObject/name")].append((reason, at))
    for pod in case.pods:
        if pod.node:
            found[pod.name].append(("Scheduled", case.snapshot.now))
    return found


def _overcome(reason: str, at: datetime | None, steps: Sequence[tuple[str, datetime]]) -> bool:
    return any(step in _OVERCOME.get(reason, ()) and at is not None and since >= at for step, since in steps)


def _made(case: Case) -> Iterator[Fact]:
    if case.manifest is None:
        return
    live = [pod for pod in case.pods if pod.state not in ("failed", "terminating")]
    missing = max(case.wanted - len(live), 0) if case.wanted else int(not case.pods)
    running = [pod for pod in case.pods if pod.state in ("ready", "running")]
    fields = {"missing": str(missing or ""), "there": str(len(case.pods) or ""), "running": str(len(running) or "")}
    yield Fact("made", fields, f"pods: {len(case.pods)} there, {len(running)} running, {case.wanted or '?'} wanted")


def _claims(case: Case) -> Iterator[Fact]:
    names = dict.fromkeys(
        text(volume, "/persistentVolumeClaim/claimName")
        for pod in case.pods
        for _, volume in items(pod.manifest, "/spec/volumes")
    )
    for name in filter(None, names):
        claim = case.snapshot.get(CLAIM, case.namespace, name)
        if claim is None:
            continue
        notes = mapping(claim, "/metadata/annotations")
        fields = {
            "name": name, "phase": text(claim, "/status/phase", "Pending"), "modes": ", ".join(texts(claim, "/spec/accessModes")),
            "class": text(claim, "/spec/storageClassName"), "chosen": str(notes.get("volume.kubernetes.io/selected-node", "")),
            "provisioner": str(notes.get("volume.kubernetes.io/storage-provisioner", "")),
        }  # fmt: skip
        yield Fact(
            "claim", fields, f"PersistentVolumeClaim/{name}: {fields['phase']}, {fields['modes']}, class {fields['class']}"
        )
        for event in case.snapshot.events(case.namespace, "PersistentVolumeClaim", name):
            told = {"of": "claim", "name": name, **{key: text(event, f"/{key}") for key in ("reason", "type", "message")}}
            yield Fact("event", told, f"event {told['reason']} of PersistentVolumeClaim/{name}: {told['message']}")


def _absent(case: Case, written: Sequence[Object]) -> Iterator[Fact]:
    there = {ObjectKey.of(one) for one in case.snapshot.objects}
    for one in written:
        key = ObjectKey.of(one)
        if key.name == case.name and GroupKind(key.group, key.kind) == case.kind:
            continue
        fields = {
            "kind": key.kind,
            "name": key.name,
            "of": "foundation" if in_foundation(one) or key.kind not in _OF_RUN else "run",
        }
        if key in there:
            yield Fact("present", fields, f"{key.kind}/{key.name} is there")
        elif case.snapshot.has(GroupKind(key.group, key.kind)):
            yield Fact("absent", fields, f"no {key.kind}/{key.name} in {case.namespace}")


_OF_RUN = ("ConfigMap", "Service", "NetworkPolicy", "PodGroup", "PodDisruptionBudget")


def _others(case: Case) -> Iterator[Fact]:
    for one in others(case):
        pods = [child for child in case.snapshot.below(one) if GroupKind.of(child) == POD]
        phase = status(one, pods).phase
        if phase not in ("done", "failed"):
            name = str(one["metadata"]["name"])
            yield Fact(
                "other",
                {"kind": str(one["kind"]), "name": name, "phase": phase},
                f"{one['kind']}/{name}: {phase}, of the same run",
            )


def _nodes(case: Case) -> Iterator[Fact]:
    where = {pod.node for pod in case.every_pod}
    placed = re.compile(r"Successfully assigned \S+ to (\S+)|on node (\S+)")
    for event in case.events:
        match = placed.search(text(event, "/message"))
        where |= {match[1] or match[2]} if match else set()
    there = {str(one["metadata"]["name"]): one for one in case.snapshot.of(NODE)}
    for name in sorted(filter(None, where)):
        node = there.get(name)
        if node is None:
            if case.snapshot.has(NODE):
                yield Fact("node", {"name": name, "ready": "gone"}, f"no Node/{name}")
            continue
        taints = (t for _, t in items(node, "/spec/taints") if text(t, "/effect") == "NoExecute")
        evicting = [t for t in taints if not any(tolerated(t, pod.manifest["spec"]) for pod in case.every_pod)]
        own = [text(t, "/key") for t in evicting if not text(t, "/key").startswith("node.kubernetes.io/")]
        ready = text(condition(node, "Ready"), "/status", "True")
        fields: dict[str, Any] = {
            "name": name, "ready": ready, "taint": ", ".join(own), "cordoned": yes(mapping(node, "/spec").get("unschedulable")),
            "arch": arch(case, name),
        }  # fmt: skip
        shown = [f"Ready={ready}", f"taint {fields['taint']} NoExecute" if own else "", "cordoned" if fields["cordoned"] else ""]
        yield Fact("node", fields, f"Node/{name}: {', '.join(filter(None, shown))}")
