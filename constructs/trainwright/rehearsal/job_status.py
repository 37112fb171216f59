"""Status of an Indexed Job: which indexes are done, what failures count, and when the Job is over. No time and no processes here.

After kubernetes pkg/controller/job/job_controller.go and indexed_job_utils.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.rehearsal.failure_policy import Match, match
from trainwright.rehearsal.kinds import Job
from trainwright.rehearsal.pod_end import PodEnd

DEFAULT_BACKOFF_LIMIT = 6
"""Of a Job that counts failures for the whole Job; with a limit per index there is no other."""


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
