"""What the Job controller does when a pod of a Job has ended: it makes another one after a while, or ends the Job.

After kubernetes pkg/controller/job: job_controller.go, indexed_job_utils.go,
pod_failure_policy.go and backoff_utils.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.operators.ending import (
    ContainerEnd,
    Controller,
    Decision,
    IndexDone,
    IndexFailed,
    JobEnd,
    Match,
    PodEnd,
    Replace,
)
from trainwright.operators.job.defaults import selected
from trainwright.operators.operator import Around
from trainwright.plan.incident import delay


def match(policy: Mapping[str, Any], end: PodEnd) -> Match:
    """The first rule of a podFailurePolicy that matches wins; without one the failure counts."""
    for index, rule in enumerate(policy.get("rules", ())):
        action = rule["action"]
        if "onExitCodes" in rule:
            if container := _container_with_code(rule["onExitCodes"], end):
                return Match(action, index, (
                    f"Container {container.name} for pod {end.namespace}/{end.pod} failed with exit code {container.exit_code} "
                    f"matching {action} rule at index {index}"
                ))
        elif condition := _condition(rule, end):
            message = f"Pod {end.namespace}/{end.pod} has condition {condition} matching {action} rule at index {index}"
            return Match(action, index, message)
    return Match("Count")


def _container_with_code(wanted: Mapping[str, Any], end: PodEnd) -> ContainerEnd | None:
    """Exit code 0 never matches, not even NotIn."""
    for container in end.containers:
        if container.exit_code == 0 or wanted.get("containerName") not in (None, container.name):
            continue
        if (container.exit_code in wanted["values"]) == (wanted["operator"] == "In"):
            return container
    return None


def _condition(rule: Mapping[str, Any], end: PodEnd) -> str | None:
    wanted = [(condition["type"], condition.get("status", "True")) for condition in rule.get("onPodConditions", ())]
    return next((type for type, status in wanted if (type, status) in end.conditions), None)


def indexes(text: str) -> set[int]:
    """``0,2-4`` as numbers."""
    pairs = (part.partition("-") for part in text.split(","))
    return {number for first, dash, last in pairs for number in range(int(first), int(last if dash else first) + 1)}


def ended(manifest: Mapping[str, Any], around: Around) -> Controller:
    return JobStatus(manifest)


class JobStatus(Controller):
    """Of one Job."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._spec = selected(job)["spec"]
        self.deadline_seconds = self._spec.get("activeDeadlineSeconds")
        self._per_index: int | None = self._spec.get("backoffLimitPerIndex")
        self._succeeded: set[int] = set()
        self._failed: set[int] = set()
        self._counted: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        """Those that are ignored among them, of each index since the last success that resets them."""

    @property
    def finished_indexes(self) -> frozenset[int]:
        return frozenset(self._succeeded | self._failed)

    def record(self, end: PodEnd) -> Decision:
        if end.succeeded:
            self._succeeded.add(end.index)
            if self._per_index is None:
                self._failures.clear()
            return self._has_succeeded() or self._all_over() or IndexDone()
        self._failures[end.index] = self._failures.get(end.index, 0) + 1
        found = match(self._spec.get("podFailurePolicy", {}), end)
        if found.action == "FailJob":
            return JobEnd("Failed", "PodFailurePolicy", found.message)
        if found.action == "Count":
            self._counted[end.index] = self._counted.get(end.index, 0) + 1
        if self._index_is_lost(end.index, found):
            self._failed.add(end.index)
            return self._too_many_failed() or self._all_over() or IndexFailed(found)
        if self._retries_used_up():
            return JobEnd("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        so_far = sum(self._failures.values()) if self._per_index is None else self._failures[end.index]
        return Replace(found, self._counted.get(end.index, 0), delay(so_far))

    def _has_succeeded(self) -> JobEnd | None:
        """The first rule of a successPolicy that is met ends the Job, and the pods that still run (success_policy.go)."""
        for number, rule in enumerate(self._spec.get("successPolicy", {}).get("rules", ())):
            wanted = indexes(rule["succeededIndexes"]) if "succeededIndexes" in rule else None
            met = self._succeeded if wanted is None else self._succeeded & wanted
            if len(met) >= int(rule.get("succeededCount", len(wanted or ()))):
                return JobEnd("Complete", "SuccessPolicy", f"Matched rules at index {number}")
        return None

    def _index_is_lost(self, index: int, found: Match) -> bool:
        limit = self._per_index
        return limit is not None and (found.action == "FailIndex" or self._counted.get(index, 0) > limit)

    def _retries_used_up(self) -> bool:
        return sum(self._counted.values()) > int(self._spec["backoffLimit"])

    def _too_many_failed(self) -> JobEnd | None:
        limit = self._spec.get("maxFailedIndexes")
        if limit is None or len(self._failed) <= limit:
            return None
        return JobEnd("Failed", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")

    def _all_over(self) -> JobEnd | None:
        if len(self.finished_indexes) < self._spec["completions"]:
            return None
        if self._failed:
            return JobEnd("Failed", "FailedIndexes", "Job has failed indexes")
        return JobEnd("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
