"""Status of an Indexed Job: what a failed pod means for it, which indexes are done, and when it is over.

There is no time and there are no processes here. After kubernetes pkg/controller/job: job_controller.go, indexed_job_utils.go and
pod_failure_policy.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainwright.rehearsal.kinds import FailurePolicy, FailureRule, Job, OnExitCodes
from trainwright.rehearsal.pod import ContainerEnd, PodEnd

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


DEFAULT_BACKOFF_LIMIT = 6
"""For a Job that counts failures for the whole Job; a Job with a limit per index has no default."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The Job's final condition."""

    type: str
    """``Complete`` or ``Failed``."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Replace:
    """The index gets a new pod."""

    match: Match
    failures: int
    """Of this index that counted so far."""


@dataclass(frozen=True, slots=True)
class IndexDone:
    """The index succeeded, which is final."""


@dataclass(frozen=True, slots=True)
class IndexFailed:
    """The index has used up its retries, or a rule failed it."""

    match: Match


Decision = Replace | IndexDone | IndexFailed | JobEnd


class JobStatus:
    """Takes each pod's end once and says what follows."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._succeeded: set[int] = set()
        self._failed: set[int] = set()
        self._counted: dict[int, int] = {}

    @property
    def finished_indexes(self) -> frozenset[int]:
        return frozenset(self._succeeded | self._failed)

    def record(self, end: PodEnd) -> Decision:
        """What the controller does now that this pod has ended."""
        if end.succeeded:
            self._succeeded.add(end.index)
            return self._all_over() or IndexDone()
        found = match(self._job.spec.pod_failure_policy, end)
        if found.action == "FailJob":
            return JobEnd("Failed", "PodFailurePolicy", found.message)
        if found.action == "Count":
            self._counted[end.index] = self._counted.get(end.index, 0) + 1
        if self._index_is_lost(end.index, found):
            self._failed.add(end.index)
            return self._too_many_failed() or self._all_over() or IndexFailed(found)
        if self._retries_used_up():
            return JobEnd("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        return Replace(found, self._counted.get(end.index, 0))

    def _index_is_lost(self, index: int, found: Match) -> bool:
        limit = self._job.spec.backoff_limit_per_index
        return limit is not None and (found.action == "FailIndex" or self._counted.get(index, 0) > limit)

    def _retries_used_up(self) -> bool:
        spec = self._job.spec
        limit = spec.backoff_limit
        if limit is None and spec.backoff_limit_per_index is None:
            limit = DEFAULT_BACKOFF_LIMIT
        return limit is not None and sum(self._counted.values()) > limit

    def _too_many_failed(self) -> JobEnd | None:
        limit = self._job.spec.max_failed_indexes
        if limit is None or len(self._failed) <= limit:
            return None
        return JobEnd("Failed", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")

    def _all_over(self) -> JobEnd | None:
        if len(self.finished_indexes) < self._job.completions:
            return None
        if self._failed:
            return JobEnd("Failed", "FailedIndexes", "Job has failed indexes")
        return JobEnd("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
