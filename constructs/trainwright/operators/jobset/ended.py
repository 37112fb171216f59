"""What JobSet does when a pod below it has ended, after the Job controller (pkg/controllers/failure_policy.go at v0.12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.operators.job.ended import Decision, IndexDone, JobEnd, JobStatus, PodEnd
from trainwright.operators.jobset.defaults import defaults

COMPLETED = JobEnd("Completed", "AllJobsCompleted", "jobset completed successfully")


@dataclass(frozen=True, slots=True)
class Restart:
    """All Jobs are removed with their pods and made again, about 2 s later; other pods cannot report any more."""

    counted: bool
    restarts: int
    """Those that counted so far."""


class JobSetStatus:
    """Takes each pod's end once and says what follows. Actions on one Job, which are behind a feature gate, it does not know."""

    def __init__(self, job_set: Mapping[str, Any]) -> None:
        self._spec = defaults(job_set)["spec"]
        self._name, self._namespace = job_set["metadata"]["name"], job_set["metadata"].get("namespace", "default")
        self._restarts = 0
        self._start()

    def _start(self) -> None:
        self._completed: set[tuple[str, int]] = set()
        self._jobs = {
            (replicated["name"], index): JobStatus({
                "metadata": {"name": f"{self._name}-{replicated['name']}-{index}", "namespace": self._namespace},
                "spec": replicated["template"]["spec"],
            })
            for replicated in self._spec["replicatedJobs"] for index in range(replicated["replicas"])
        }  # fmt: skip

    def record(self, end: PodEnd, job: str, index: int = 0) -> Decision | Restart:
        """What the controllers do now that this pod has ended.

        Args:
            end: of the pod.
            job: the name of its replicated Job.
            index: of the Job among its replicas.
        """
        decision = self._jobs[job, index].record(end)
        if not isinstance(decision, JobEnd):
            return decision
        if decision.type == "Failed":
            return self._failed(job, decision)
        self._completed.add((job, index))
        return COMPLETED if self._has_succeeded() else IndexDone()

    def _has_succeeded(self) -> bool:
        policy = self._spec["successPolicy"]
        targets = policy.get("targetReplicatedJobs") or [job["name"] for job in self._spec["replicatedJobs"]]
        counted = [key in self._completed for key in self._jobs if key[0] in targets]
        return all(counted) if policy["operator"] == "All" else any(counted)

    def _failed(self, job: str, end: JobEnd) -> JobEnd | Restart:
        """The first rule that matches the Job and the reason of its end; without one all start again, and it counts."""
        policy = self._spec.get("failurePolicy")
        if policy is None:
            return JobEnd("Failed", "FailedJobs", f"jobset failed due to one or more job failures: {end.message}")
        action = next((rule["action"] for rule in policy.get("rules", ()) if _matches(rule, job, end)), "RestartJobSet")
        if action == "FailJobSet":
            return JobEnd("Failed", "FailJobSetFailurePolicyAction", end.message)
        counted = action != "RestartJobSetAndIgnoreMaxRestarts"
        if counted and self._restarts >= policy["maxRestarts"]:
            return JobEnd("Failed", "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
        self._restarts += counted
        self._start()
        return Restart(counted, self._restarts)


def _matches(rule: Mapping[str, Any], job: str, end: JobEnd) -> bool:
    reasons, jobs = rule.get("onJobFailureReasons"), rule.get("targetReplicatedJobs")
    return (not reasons or end.reason in reasons) and (not jobs or job in jobs)
