"""What comes back after pods have ended, and when: against what the real controllers did (Kubernetes 1.36, JobSet 0.13-devel).

The expected seconds are those of the formula; measured were 9.4 to 10.1 for 10, 601 for 600.
"""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.operators.job.ended import ContainerEnd, JobEnd, JobStatus, PodEnd, Replace
from trainwright.operators.jobset.ended import JobSetStatus, Restart

Data = dict[str, Any]
EVICTED = frozenset({("DisruptionTarget", "True")})
IGNORED: Data = {"podFailurePolicy": {"rules": [
    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [11, 12]}},
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [202, 210]}},
]}}  # fmt: skip
FAILS: Data = {"podFailurePolicy": {"rules": [
    {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
]}}  # fmt: skip
FOR_THE_JOB: Data = {"backoffLimit": 0}
PER_INDEX: Data = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}
PERMANENT: Data = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
DISRUPTED: Data = {"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["PodFailurePolicy"]}


def spec(pods: int, limit: Data, policy: Data) -> Data:
    template = {"spec": {"containers": [{"name": "trainer", "image": "a"}]}}
    return {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": template, **limit, **policy}


def job(pods: int, limit: Data) -> JobStatus:
    return JobStatus({"metadata": {"name": "a", "namespace": "b"}, "spec": spec(pods, limit, IGNORED)})


def job_set(pods: int, limit: Data, policy: Data = IGNORED, rule: Data = PERMANENT, restarts: int = 3) -> JobSetStatus:
    return JobSetStatus({"metadata": {"name": "a", "namespace": "b"}, "spec": {
        "failurePolicy": {"maxRestarts": restarts, "rules": [rule]},
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": spec(pods, limit, policy)}}],
    }})  # fmt: skip


def ended(index: int, code: int) -> PodEnd:
    return PodEnd(f"a-{index}", "b", index, (ContainerEnd("trainer", code),), EVICTED if code == 143 else frozenset())


def test_a_pod_of_an_indexed_job_comes_back_later_each_time() -> None:
    status = job(4, {"backoffLimitPerIndex": 3})
    assert [seconds(status.record(ended(2, code))) for code in (210, 210, 143, 210)] == [10, 20, 40, 80]


@pytest.mark.parametrize(("pods", "incidents", "limit", "expected"), [
    (2, 1, FOR_THE_JOB, [20]),
    (4, 1, FOR_THE_JOB, [80]),
    (8, 1, FOR_THE_JOB, [600]),
    (2, 3, FOR_THE_JOB, [20, 80, 320]),
    (8, 2, PER_INDEX, [10, 20]),
])  # fmt: skip
def test_all_pods_of_a_job_set_leave(pods: int, incidents: int, limit: Data, expected: list[int]) -> None:
    status = job_set(pods, limit)
    waits = [[seconds(status.record(ended(index, 202), "node")) for index in range(pods)] for _ in range(incidents)]
    assert [incident[-1] for incident in waits] == expected


def test_one_pod_of_a_job_set_is_evicted_three_times() -> None:
    status = job_set(4, PER_INDEX)
    assert [seconds(status.record(ended(1, 143), "node")) for _ in range(3)] == [10, 20, 40]


@pytest.mark.parametrize("limit", [FOR_THE_JOB, PER_INDEX], ids=["for the job", "per index"])
def test_a_crash_starts_the_set_again_until_its_restarts_are_used_up(limit: Data) -> None:
    status = job_set(4, limit, restarts=1)
    assert status.record(ended(0, 200), "node") == Restart(counted=True, restarts=1)
    last = status.record(ended(3, 200), "node")
    assert isinstance(last, JobEnd)
    assert (last.type, last.reason) == ("Failed", "ReachedMaxRestarts")


def test_a_permanent_code_ends_the_set_after_its_peers_have_left_too() -> None:
    status = job_set(4, PER_INDEX)
    assert isinstance(status.record(ended(0, 202), "node"), Replace)
    end = status.record(ended(1, 11), "node")
    assert isinstance(end, JobEnd)
    assert (end.type, end.reason) == ("Failed", "FailJobSetFailurePolicyAction")


def test_a_set_that_fails_its_job_on_evictions_starts_again_at_no_cost() -> None:
    status = job_set(4, FOR_THE_JOB, FAILS, DISRUPTED, restarts=0)
    assert [status.record(ended(1, 143), "node") for _ in range(3)] == [Restart(counted=False, restarts=0)] * 3


def test_a_set_is_complete_when_its_jobs_are() -> None:
    status = job_set(2, PER_INDEX)
    assert not isinstance(status.record(ended(0, 0), "node"), JobEnd)
    end = status.record(ended(1, 0), "node")
    assert isinstance(end, JobEnd)
    assert end.type == "Completed"


def seconds(decision: object) -> int:
    assert isinstance(decision, Replace)
    return decision.seconds
