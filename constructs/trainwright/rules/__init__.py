"""Rules look at run, cluster, plan and manifests, and return findings; they never change anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwright.findings import Finding
from trainwright.findings.context import Context
from trainwright.manifest.provenance import Provenance
from trainwright.operators import TARGETS
from trainwright.operators.base import run_pods
from trainwright.plan import Resolution
from trainwright.rules import secrets
from trainwright.rules.cluster import nodes, operators, profile, scheduling
from trainwright.rules.pods import capacity, containers, kubernetes, objects, pod, security, storage
from trainwright.rules.program import command, deepspeed, environment, launcher_files, launchers, mpi, rank_variables, ray, shell
from trainwright.rules.work import data, life, memory, monitoring, plausible, roles, training

_FAMILIES = (
    training, plausible, memory, deepspeed, storage, data, capacity, roles, kubernetes, containers, profile, security,
    secrets, environment, ray, command, shell, launchers, launcher_files, life, mpi, operators, rank_variables,
    scheduling, nodes, monitoring, objects,
)
_RUN = tuple(rule for family in _FAMILIES for rule in getattr(family, "RUN", ()))
_PLAN = tuple(rule for family in _FAMILIES for rule in getattr(family, "PLAN", ()))


def check_run(context: Context) -> list[Finding]:
    """What can be said before anything is planned."""
    return [finding for rule in _RUN for finding in rule(context)]


def check_plan(context: Context, resolution: Resolution) -> list[Finding]:
    """What the plan shows, alone and on its target."""
    return [finding for rule in (*_PLAN, *TARGETS[resolution.plan.target].rules) for finding in rule(context, resolution)]


def check_manifests(
    context: Context, resolution: Resolution, manifests: Sequence[dict[str, Any]], provenance: Sequence[Provenance]
) -> list[Finding]:
    """What the finished objects show, overrides included."""
    findings = list(objects.overrides_are_valid(context, manifests, provenance))
    if findings:
        return findings  # the rules on pods read what the API's schema allows
    # found once: there are many rules, and many values to walk through
    pods = list(run_pods(TARGETS[resolution.plan.target], resolution, manifests))
    counted = [*objects.pods_are_counted(context, resolution, pods), *objects.images_are_counted(context, manifests)]
    alone = scheduling.stays_behind(context, resolution, manifests)
    changed = pod.changed_pods(context, resolution, pods)
    rules = (*capacity.PODS, *scheduling.PODS, *environment.PODS, *rank_variables.PODS, *security.PODS)
    return [
        *counted,
        *alone,
        *dict.fromkeys(finding for rule in pod.CHANGED_PODS for finding in rule(context, resolution, changed)),  # not per role
        *(finding for rule in rules for finding in rule(context, resolution, pods)),
    ]


__all__ = ["Context", "check_manifests", "check_plan", "check_run"]
