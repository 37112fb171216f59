"""Policies against the runs of a project, as finished objects and stated facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import date
from typing import Any

from trainwright.cluster import is_from
from trainwright.findings import CompileError, Finding, Severity, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator, escape
from trainwright.manifest.pods import containers_of, image_volumes, images_outside
from trainwright.policy.load import PolicyFile
from trainwright.policy.model import Policy, PolicyRun, PythonPolicy, Scope, Violation
from trainwright.reading.run_module import guarded
from trainwright.units import counted

_SEVERITIES = {"error": Severity.ERROR, "warning": Severity.WARNING}


def check_policy(
    file: PolicyFile, runs: Sequence[PolicyRun], locators: Mapping[str, Locator], today: date
) -> Iterator[tuple[Finding, tuple[str, ...]]]:
    """What a policy refuses, each with the runs that it is an error of.

    Args:
        runs: of all clusters.
        locators: run -> where it is written.

    Raises:
        CompileError: TW108 where a policy in Python fails.
    """
    policy = file.policy
    granted = {one.run: one for one in policy.exempt}
    concerned = [run for run in runs if concerns(policy.applies_to, run)]
    held_to = [run for run in concerned if run.name not in granted or granted[run.name].expires < today]
    for violation in _violations(file, held_to):
        expired = granted.get(violation.run)
        remark = f"; its exemption ended on {expired.expires}" if expired else ""
        locate = locators[violation.run]
        where = locate.at(violation.field) if violation.field.startswith(("run:", "cluster:")) else locate.run(violation.field)
        yield _finding(file, where, violation.message + remark), (violation.run,)
    if isinstance(policy, Policy) and policy.gpus and policy.gpus.altogether is not None:
        total = sum(run.gpus for run in held_to)
        if total > policy.gpus.altogether:
            listed = ", ".join(f"{run.name} {run.gpus}" for run in sorted(held_to, key=lambda run: -run.gpus) if run.gpus)
            message = f"{total} GPUs altogether, and at most {policy.gpus.altogether} are allowed: {listed}"
            yield _finding(file, file.where("/gpus/altogether"), message), tuple(run.name for run in held_to if run.gpus)


def concerns(scope: Scope, run: PolicyRun) -> bool:
    """Whether a policy of this scope is about the run."""
    asked = ((scope.clusters, run.cluster), (scope.namespaces, run.namespace), (scope.teams, run.team), (scope.queues, run.queue))
    return all(not names or own in names for names, own in asked)


def _finding(file: PolicyFile, where: Where, message: str) -> Finding:
    policy = file.policy
    more = f" ({policy.page})" if policy.page else ""
    severity, said = _SEVERITIES[policy.severity], f"{policy.title}: {message}"
    return Finding(policy.code, severity, where, said, f"{policy.why}{more}", policy.fix)


def _violations(file: PolicyFile, runs: Sequence[PolicyRun]) -> Iterator[Violation]:
    if isinstance(file.policy, PythonPolicy):
        yield from _asked(file, file.policy, runs)
        return
    for demand, check in _CHECKS.items():
        asked = getattr(file.policy, demand)
        if asked:
            yield from (violation for run in runs for violation in check(run, asked))


def _asked(file: PolicyFile, policy: PythonPolicy, runs: Sequence[PolicyRun]) -> list[Violation]:
    """What a function says of runs, which it gets as copies: no policy changes what is written."""
    known = {run.name for run in runs}
    interrupted: list[int] = []
    try:
        with guarded() as interrupted:
            said = list(policy.check(deepcopy(runs)))
    except BaseException as error:  # the function is the platform team's own, and may end the program
        if interrupted:
            raise
        fix = "correct the function; it gets a list of trainwright.policy.PolicyRun"
        message = f"check of policy {policy.code} fails: {type(error).__name__}: {error}"
        raise CompileError([found("TW108", file.where(), message, fix)]) from error
    for one in said:
        if not (isinstance(one, Violation) and one.run in known and isinstance(one.message, str) and isinstance(one.field, str)):
            fix = "yield trainwright.policy.Violation(run.name, message)"
            message = f"check of policy {policy.code} gives {type(one).__name__} in place of the violation of a run that it got"
            raise CompileError([found("TW108", file.where(), message, fix)])
    return said


def _gpus(run: PolicyRun, asked: Any) -> Iterator[Violation]:
    if asked.per_run is not None and run.gpus > asked.per_run:
        yield Violation(run.name, f"it asks for {counted(run.gpus, 'GPU')}, and at most {asked.per_run} are allowed", "/topology")


def _registries(run: PolicyRun, allowed: Sequence[str]) -> Iterator[Violation]:
    containers = [container for pod in run.pods for _, container in containers_of(pod)]
    images = [str(container.get("image")) for container in containers if container not in run.added]
    images += [reference for pod in run.pods for _, reference in image_volumes(pod)]
    images += [reference for manifest in run.manifests for _, reference in images_outside(manifest)]
    for image in dict.fromkeys(images):
        if not is_from(image, allowed):
            yield Violation(run.name, f"image {image} is not from {' or '.join(allowed)}", run.images.get(image, "/image"))
    for image, name in {container["image"]: container["name"] for container in run.added}.items():
        if image not in images and not is_from(image, allowed):
            message = f"image {image} of container {name}, which the operator adds, is not from {' or '.join(allowed)}"
            yield Violation(run.name, message, "/target")


def _queues(run: PolicyRun, allowed: Sequence[str]) -> Iterator[Violation]:
    if run.queue not in allowed:
        said = f"queue {run.queue} is none of" if run.queue else "it is in no queue, and should be in one of"
        yield Violation(run.name, f"{said} {', '.join(allowed)}", "/queue")


def _priorities(run: PolicyRun, allowed: Sequence[str]) -> Iterator[Violation]:
    for name in dict.fromkeys(pod.get("priorityClassName") for pod in run.pods):
        if name not in allowed:
            said = f"priority {name} is none of" if name else "it has no priority, and should have one of"
            yield Violation(run.name, f"{said} {', '.join(allowed)}", "/priority")


def _labels(run: PolicyRun, asked: Mapping[str, Sequence[str]]) -> Iterator[Violation]:
    for key, values in asked.items():
        own = run.facts.get(f"labels.{key}")
        if own is None:
            yield Violation(run.name, f"label {key} is missing", "/labels")
        elif values and str(own) not in values:
            yield Violation(run.name, f"label {key} is {own}, and should be one of {', '.join(values)}", f"/labels/{escape(key)}")


def _forbid(run: PolicyRun, asked: Iterable[str]) -> Iterator[Violation]:
    for name in asked:
        test, field, words = _FORBIDDEN[name]
        if any(test(pod) for pod in run.pods):
            yield Violation(run.name, words, field)


def _has_host_path(pod: Mapping[str, Any]) -> bool:
    return any("hostPath" in volume for volume in pod.get("volumes") or [])


def _is_privileged(pod: Mapping[str, Any]) -> bool:
    return any((container.get("securityContext") or {}).get("privileged") for _, container in containers_of(pod))


def _may_be_root(pod: Mapping[str, Any]) -> bool:
    """A container whose user is 0, or that states neither a user nor that it is not root: its image may say root then."""
    whole = pod.get("securityContext") or {}
    for _, container in containers_of(pod):
        own = container.get("securityContext") or {}
        user = own.get("runAsUser", whole.get("runAsUser"))
        if user == 0 or (user is None and own.get("runAsNonRoot", whole.get("runAsNonRoot")) is not True):
            return True
    return False


_FORBIDDEN: Mapping[str, tuple[Callable[[Mapping[str, Any]], bool], str, str]] = {
    "host-network": (lambda pod: bool(pod.get("hostNetwork")), "/host_network", "its pods are on the node's network"),
    "host-path": (_has_host_path, "/mounts", "it mounts a folder of the node"),
    "privileged": (_is_privileged, "/security", "a container is privileged"),
    "root": (_may_be_root, "/security", "a container may run as root"),
}
_CHECKS: Mapping[str, Callable[[PolicyRun, Any], Iterator[Violation]]] = {
    "gpus": _gpus, "registries": _registries, "queues": _queues, "priorities": _priorities, "labels": _labels, "forbid": _forbid,
}
