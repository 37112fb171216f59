"""What a JobSet says of its run: the Jobs with ranks, and those beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from trainwright.manifest.pods import containers_of, mounted_volumes
from trainwright.objects.fields import items, mapping, text, texts, whole
from trainwright.operators.job.said import exit_codes, part_of
from trainwright.operators.operator import Around
from trainwright.operators.said import GPU, TORCH, Part, Said, Words, asked, count, seconds, stated

JOBS = "/spec/replicatedJobs"


def said(manifest: Mapping[str, Any], around: Around) -> Said:
    """The Job whose pods have GPUs trains, or the first one that no other waits to see end; of those alike, the larger."""
    parts = tuple(_part(manifest, number, one) for number, one in items(manifest, JOBS))
    if not parts:
        raise LookupError("it has no replicatedJobs")
    awaited = {one.role: _awaited(manifest, number) for number, one in enumerate(parts)}
    ended = {name for waits in awaited.values() for name, status in waits.items() if status == "Complete"}
    lead = max(parts, key=lambda one: (_gpus(one) > 0, one.role not in ended, one.pods if _gpus(one) else -parts.index(one)))
    first = lead._replace(role="node", ranks=True, further=False, words={})
    starts, place = _starts(manifest, lead, parts, awaited), parts.index(lead)
    others = tuple(_beside(one, starts.get(one.role, ""), place) for one in _in_order(parts, starts) if one is not lead)
    at_lead = f"{JOBS}/{place}"
    spec, jobs = f"{at_lead}/template/spec", count(manifest, f"{at_lead}/replicas")
    words = dict([*stated(manifest, {"/spec/failurePolicy/maxRestarts": "/restarts"}),
                  *seconds(manifest, f"{spec}/activeDeadlineSeconds"),
                  *_exit_codes(manifest, place).items()])  # fmt: skip
    never = f"{spec}/backoffLimit"
    if not mapping(manifest, "/spec/failurePolicy") and whole(manifest, never) == 0:
        words["/restarts"] = (0, never)
    kinds = (*TORCH, "jax", *(() if others else ("independent",)))
    merged = {f"{at_lead}/replicas": f"the {jobs} Jobs of this JobSet become one, whose pods are"} if jobs > 1 else {}
    return Said("job-set", (first, *others), kinds, words, claims=_claims(manifest), merged=merged)


def _part(manifest: Mapping[str, Any], number: int, replicated: Mapping[str, Any]) -> Part:
    """A further role, until the one that trains is chosen. Several replicas of a Job are one role."""
    pointer = f"{JOBS}/{number}"
    part = part_of(manifest, text(replicated, "/name", f"job-{number}"), f"{pointer}/template/spec")
    wanted = texts(manifest, "/spec/successPolicy/targetReplicatedJobs")
    words = {"/must_end": (True, f"{pointer}/name")} if not wanted or part.role in wanted else {}
    words |= _exit_codes(manifest, number)
    pods = part.pods * max(count(replicated, "/replicas"), 1)
    return part._replace(pods=pods, ranks=False, further=True, words=words, template=_with_claims(manifest, part.template))


def _claims(manifest: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Claims that a JobSet makes for its pods, by the names of the volumes that they are there."""
    policies = items(manifest, "/spec/volumeClaimPolicies")
    return {text(one, "/metadata/name"): one for _, policy in policies for _, one in items(policy, "/templates")}


def _with_claims(manifest: Mapping[str, Any], template: Mapping[str, Any]) -> Mapping[str, Any]:
    """A run mounts claims of its namespace."""
    spec = mapping(template, "/spec")
    wanted = mounted_volumes(spec) - {text(one, "/name") for _, one in items(spec, "/volumes")}
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in _claims(manifest) if name in wanted]
    return {**template, "spec": {**spec, "volumes": [*(spec.get("volumes") or []), *made]}} if made else template


_RESTARTS = {"FailJobSet": "fail", "RestartJobSetAndIgnoreMaxRestarts": "ignore"}


def _exit_codes(manifest: Mapping[str, Any], number: int) -> Words:
    """A code that fails the Job is what the JobSet makes of a Job that failed by its policy: without a rule, a restart."""
    pointer, reason = f"{JOBS}/{number}", "PodFailurePolicy"
    name, action = text(manifest, f"{pointer}/name"), ""
    for _, rule in reversed([*items(manifest, "/spec/failurePolicy/rules")]):
        reasons, jobs = texts(rule, "/onJobFailureReasons"), texts(rule, "/targetReplicatedJobs")
        if (not reasons or reason in reasons) and (not jobs or name in jobs):
            action = text(rule, "/action")
    return dict(exit_codes(manifest, f"{pointer}/template/spec", _RESTARTS.get(action, "count")))


ORDER = "/spec/startupPolicy/startupPolicyOrder"


def _beside(part: Part, start: str, lead: int) -> Part:
    """A further role: under another name where the topology has that one, and in its order with the pods that hold ranks."""
    words = {key: word for key, word in part.words.items() if start != "first" or key != "/must_end"}
    if start:
        words["/starts"] = (start, f"{JOBS}/{lead}/dependsOn" if start == "first" else ORDER)
    return part._replace(role=f"{part.role}-job" if part.role == "node" else part.role, words=words)


def _starts(
    manifest: Mapping[str, Any], lead: Part, parts: Sequence[Part], awaited: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Role -> when its pods start, of those that do not start with the nodes; the earliest first.

    The nodes wait for the Jobs that they name, and for those that these wait for. No role starts once the nodes have ended.

    Raises:
        ValueError: Jobs that wait for each other.
    """
    if text(manifest, ORDER) == "InOrder":
        place = parts.index(lead)
        return {one.role: "before" if number < place else "after" for number, one in enumerate(parts) if number != place}
    found, waiting = dict[str, str](), [lead.role]
    for name in waiting:
        new = {other: status for other, status in awaited[name].items() if other in awaited and other not in found}
        found |= new
        waiting += new
    sooner = [name for name in TopologicalSorter(awaited).static_order() if name in found]
    later = {name: "after" for name, waits in awaited.items() if waits.get(lead.role) == "Ready" and name not in found}
    return {**{name: "first" if found[name] == "Complete" else "before" for name in sooner}, **later}


def _in_order(parts: Sequence[Part], starts: Mapping[str, str]) -> list[Part]:
    """Those that come before the nodes first: a run's roles of that kind start one by one."""
    by_name = {one.role: one for one in parts}
    sooner = [name for name, start in starts.items() if start != "after"]
    return [*map(by_name.__getitem__, sooner), *(one for one in parts if one.role not in sooner)]


def _awaited(manifest: Mapping[str, Any], number: int) -> dict[str, str]:
    """The Jobs whose pods must be something before a Job has any -> ``Ready`` or ``Complete``."""
    return {text(one, "/name"): text(one, "/status") for _, one in items(manifest, f"{JOBS}/{number}/dependsOn")}


def _gpus(part: Part) -> int:
    spec = part.template.get("spec")
    containers = [one for _, one in containers_of(spec if isinstance(spec, dict) else {})]
    return sum(GPU.fullmatch(name) is not None for one in containers for name in asked(one))
