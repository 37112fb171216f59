"""JobSet: its validating webhook (sigs.k8s.io/jobset, pkg/webhooks/jobset_webhook.go at v0.12), after its defaulting one.

And the one label that its controller makes and nobody checks (pkg/controllers/jobset_controller.go).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, number, text, texts
from trainwright.objects.metadata import LONGEST_LABEL, not_a_service_label, not_qualified
from trainwright.objects.problem import Objection, Problem
from trainwright.operators.job.rules import job_problems
from trainwright.operators.jobset.defaults import JOBS, POD

REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
MOST_PODS = 2**31 - 1
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def job_set(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    subdomain, manager = text(manifest, "/spec/network/subdomain"), at(manifest, "/spec/managedBy")
    if subdomain and (reason := not_a_service_label(subdomain)):
        message = f"the subdomain {subdomain} is the name of a Service, which {reason}"
        yield Objection("/spec/network/subdomain", message, "choose another one")
    if manager is not None and not _is_manager(manager):
        fix = "write a domain and a path, such as kueue.x-k8s.io/multikueue"
        yield Objection("/spec/managedBy", f"{manager} is not the name of a manager", fix)
    seen: set[str] = set()
    for index, job in items(manifest, JOBS):
        yield from _names(text(manifest, "/metadata/name"), job, f"{JOBS}/{index}")
        yield from _after(job, index, seen)
        seen.add(text(job, "/name"))
    known = [text(job, "/name") for _, job in items(manifest, JOBS)]
    for index, job in items(manifest, JOBS):
        place = f"{JOBS}/{index}/template"
        yield from (refused_later(problem, place) for problem in job_problems(at(job, "/template")))
    yield from _claims(manifest)
    yield from _targets(manifest, "/spec/successPolicy", known)
    yield from _failure_policy(manifest, known)
    yield from _coordinator(manifest)


def refused_later(problem: Problem, place: str) -> Objection:
    """What the API server refuses in a Job that a controller makes: the object is there, and none of its pods."""
    code = "TW711" if problem.code in ("TW704", "TW705") else problem.code
    return Objection(*problem.below(place).said, code)


def _claims(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    """A claim is a volume of the pods that mount it (validateVolumeClaimPolicies)."""
    pods = [mapping(job, POD) for _, job in items(manifest, JOBS)]
    containers = [one for pod in pods for field in ("/containers", "/initContainers") for _, one in items(pod, field)]
    mounted = {text(mount, "/name") for one in containers for _, mount in items(one, "/volumeMounts")}
    for number_of, policy in items(manifest, "/spec/volumeClaimPolicies"):
        for index, claim in items(policy, "/templates"):
            if (name := text(claim, "/metadata/name")) not in mounted:
                place = f"/spec/volumeClaimPolicies/{number_of}/templates/{index}/metadata/name"
                yield Objection(place, f"no container mounts the claim {name}", f"add `volumeMounts: [{{name: {name}, …}}]`")


def _is_manager(value: object) -> bool:
    return isinstance(value, str) and "/" in value and not not_qualified(value) and len(value) <= LONGEST_LABEL


def _names(name: str, job: Mapping[str, Any], place: str) -> Iterator[Objection]:
    replicas, parallelism = number(job, "/replicas", 1), number(job, "/template/spec/parallelism", 1)
    if replicas * parallelism > MOST_PODS:
        yield Objection(f"{place}/replicas", f"{replicas} replicas of {parallelism} pods are too many", "write fewer")
    group = text(job, "/groupName", "default")
    if reason := not_a_service_label(group):
        yield Objection(f"{place}/groupName", f"the group name {group} {reason}", "choose another one")
    longest = f"{name}-{text(job, '/name')}-{max(replicas - 1, 0)}"
    if reason := not_a_service_label(longest):
        yield Objection(f"{place}/name", f"the operator derives the Job name {longest}, which {reason}", "choose shorter names")
        return
    completions = number(job, "/template/spec/completions", 0)
    if completions and text(job, "/template/spec/completionMode", "Indexed") == "Indexed":
        pod = f"{longest}-{completions - 1}-abcde"
        if reason := not_a_service_label(pod):
            message = f"the operator derives pod names such as {pod}, which {reason}"
            yield Objection(f"{place}/name", message, "choose shorter names")


def _after(job: Mapping[str, Any], index: int, seen: set[str]) -> Iterator[Objection]:
    place = f"{JOBS}/{index}/dependsOn"
    for number_of, dependency in items(job, "/dependsOn"):
        name = text(dependency, "/name")
        if index == 0:
            yield Objection(place, "the first replicated job cannot depend on another", "move it below the one it waits for")
            return
        if name not in seen:
            message = f"{text(job, '/name')} depends on {name}, which does not come before it"
            yield Objection(f"{place}/{number_of}/name", message, f"name one of: {', '.join(sorted(seen))}")


def _targets(owner: Mapping[str, Any], place: str, known: list[str]) -> Iterator[Objection]:
    for index, name in enumerate(texts(owner, f"{place}/targetReplicatedJobs")):
        if name not in known:
            pointer = f"{place}/targetReplicatedJobs/{index}"
            yield Objection(pointer, f"there is no replicated job {name}", f"name one of: {', '.join(known)}")


def _failure_policy(manifest: Mapping[str, Any], known: list[str]) -> Iterator[Objection]:
    place = "/spec/failurePolicy/rules"
    rules = list(items(manifest, place))
    names = Counter(text(rule, "/name") for _, rule in rules)
    for index, rule in rules:
        name = text(rule, "/name")
        if not _RULE_NAME.fullmatch(name) or len(name) > 128:
            message = f"the rule name {name[:60]} must consist of letters, digits and _,: and start with a letter"
            yield Objection(f"{place}/{index}/name", message, "choose another name")
        elif names[name] > 1:
            yield Objection(f"{place}/{index}/name", f"{names[name]} rules have the name {name}", "give each its own")
        yield from _targets(manifest, f"{place}/{index}", known)
        for at_reason, reason in enumerate(texts(rule, "/onJobFailureReasons")):
            if reason not in REASONS:
                pointer = f"{place}/{index}/onJobFailureReasons/{at_reason}"
                yield Objection(pointer, f"no Job fails for the reason {reason}", f"write one of {', '.join(REASONS)}")


def _coordinator(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    place = "/spec/coordinator"
    if not mapping(manifest, place):
        return
    wanted = text(manifest, f"{place}/replicatedJob")
    job = next((job for _, job in items(manifest, JOBS) if text(job, "/name") == wanted), None)
    if job is None:
        yield Objection(f"{place}/replicatedJob", f"there is no replicated job {wanted}", "name one of them")
        return
    if not 0 <= number(manifest, f"{place}/jobIndex", 0) < number(job, "/replicas", 1):
        yield Objection(f"{place}/jobIndex", f"{wanted} has no Job of that index", "write an index below its replicas")
    if text(job, "/template/spec/completionMode", "Indexed") != "Indexed":
        fix = "write `completionMode: Indexed` there"
        yield Objection(f"{place}/replicatedJob", f"the Jobs of {wanted} are not Indexed", fix)
    elif not 0 <= number(manifest, f"{place}/podIndex", 0) < number(job, "/template/spec/completions", 0):
        yield Objection(f"{place}/podIndex", f"{wanted} has no pod of that index", "write an index below its completions")
    yield from _coordinator_label(manifest, wanted)


def _coordinator_label(manifest: Mapping[str, Any], wanted: str) -> Iterator[Objection]:
    """The coordinator's address is a label of each Job and pod (``coordinatorEndpoint``): the webhook does not look at its
    length, and the API server refuses the Jobs."""
    place, name = "/spec/coordinator", text(manifest, "/metadata/name")
    indexes = "-".join(str(number(manifest, f"{place}/{index}", 0)) for index in ("jobIndex", "podIndex"))
    address = f"{name}-{wanted}-{indexes}.{text(manifest, '/spec/network/subdomain') or name}"
    if len(address) > LONGEST_LABEL:
        message = f"the operator writes the coordinator's address {address} as a label, and it has {len(address)} characters"
        yield Objection(place, message, f"choose shorter names: a label has at most {LONGEST_LABEL}")
