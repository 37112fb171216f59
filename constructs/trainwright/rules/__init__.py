"""Rules look at run, cluster, plan and manifests, and return findings; they never change anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwright.findings import Finding
from trainwright.findings.context import Context
from trainwright.manifest.provenance import Provenance
from trainwright.operators import TARGETS
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.rules import secrets
from trainwright.rules.cluster import nodes, operators, profile, scheduling
from trainwright.rules.pods import capacity, containers, kubernetes, objects, pod, security, storage
from trainwright.rules.program import (
    command,
    deepspeed,
    environment,
    launcher_files,
    launchers,
    mpi,
    packages,
    programs,
    rank_variables,
    ray,
    shell,
    supervisor,
)
from trainwright.rules.work import data, life, memory, monitoring, plausible, roles, training

_FAMILIES = (
    training, plausible, memory, deepspeed, pod, storage, data, capacity, roles, kubernetes, containers, profile, security,
    secrets, environment, ray, command, packages, programs, shell, launchers, launcher_files, life, mpi, operators,
    rank_variables, scheduling, nodes, monitoring, objects, supervisor,
)
_RUN = tuple(rule for family in _FAMILIES for rule in getattr(family, "RUN", ()))
_PLAN = tuple(rule for family in _FAMILIES for rule in getattr(family, "PLAN", ()))
_PODS = tuple(rule for family in _FAMILIES for rule in getattr(family, "PODS", ()))


def check_run(context: Context) -> list[Finding]:
    """What can be said before anything is planned."""
    return [finding for rule in _RUN for finding in rule(context)]


def check_plan(context: Context, resolution: Resolution) -> list[Finding]:
    """What the plan shows, alone and on its target."""
    rules = (*_PLAN, *TARGETS[resolution.plan.target].rules)
    return [*dict.fromkeys(finding for rule in rules for finding in rule(context, resolution))]  # not for each launcher


def check_manifests(
    context: Context,
    resolution: Resolution,
    manifests: Sequence[dict[str, Any]],
    provenance: Sequence[Provenance],
    pods: Sequence[RunPod],
) -> list[Finding]:
    """What the finished objects show, overrides included; ``pods`` are all of theirs."""
    findings = list(objects.overrides_are_valid(context, manifests, provenance))
    if findings:
        return findings  # the rules on pods read what the API's schema allows
    helpers = TARGETS[resolution.plan.target].helpers
    judged = [pod for pod in pods if (pod.kind, pod.found.pointer.removesuffix("/spec")) not in helpers]
    findings = [
        *objects.pods_are_counted(context, judged),
        *objects.images_are_counted(context, manifests, provenance),
        *scheduling.stays_behind(context, resolution, manifests),
        *dict.fromkeys(finding for rule in _PODS for finding in rule(context, resolution, judged)),  # not per role
    ]
    told = {finding.where for finding in findings}  # in words of our own, which say more
    return findings + [one for one in dict.fromkeys(pod.is_consistent(context, resolution, judged)) if one.where not in told]


__all__ = ["Context", "check_manifests", "check_plan", "check_run"]
