"""``podFailurePolicy``: what a failed pod means for its Job (kubernetes pkg/controller/job/pod_failure_policy.go)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainwright.rehearsal.kinds import FailurePolicy, FailureRule, OnExitCodes
from trainwright.rehearsal.pod_end import ContainerEnd, PodEnd

Action = Literal["FailJob", "FailIndex", "Ignore", "Count"]


@dataclass(frozen=True, slots=True)
class Match:
    """What to do with a failed pod, and which rule says so."""

    action: Action
    rule: int | None = None
    """None where no rule matches and the failure counts by default."""
    message: str = ""
    """As the Job controller words it."""


def match(policy: FailurePolicy | None, end: PodEnd) -> Match:
    """The first rule that matches wins; without one the failure counts."""
    for index, rule in enumerate(policy.rules if policy else ()):
        if rule.on_exit_codes is not None:
            if container := _container_with_code(rule.on_exit_codes, end):
                return Match(rule.action, index, (
                    f"Container {container.name} for pod {end.namespace}/{end.pod} failed with exit code {container.exit_code} "
                    f"matching {rule.action} rule at index {index}"
                ))
        elif condition := _condition(rule, end):
            message = f"Pod {end.namespace}/{end.pod} has condition {condition} matching {rule.action} rule at index {index}"
            return Match(rule.action, index, message)
    return Match("Count")


def _container_with_code(wanted: OnExitCodes, end: PodEnd) -> ContainerEnd | None:
    """Exit code 0 never matches, not even NotIn."""
    for container in end.containers:
        if container.exit_code == 0 or wanted.container_name not in (None, container.name):
            continue
        if (container.exit_code in wanted.values) == (wanted.operator == "In"):
            return container
    return None


def _condition(rule: FailureRule, end: PodEnd) -> str | None:
    return next((wanted.type for wanted in rule.on_pod_conditions if (wanted.type, wanted.status) in end.conditions), None)
