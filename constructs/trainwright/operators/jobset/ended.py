"""What JobSet does when a pod below it has ended, after the Job controller (pkg/controllers/failure_policy.go at v0.12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.operators.ending import Controller, Decision, IndexDone, JobEnd, PodEnd, Restart
from trainwright.operators.job.ended import JobStatus
from trainwright.operators.jobset.defaults import defaults
from trainwright.operators.operator import Around

RESTART_SECONDS = 2
COMPLETED = JobEnd("Completed", "AllJobsCompleted", "jobset completed successfully")


def ended(manifest: Mapping[str, Any], around: Around) -> Controller:
    return JobSetStatus(manifest)


class JobSetStatus(Controller):
    """Of one JobSet. Actions on one Job, which are behind a feature gate, it does not know."""

    def __init__(self, job_set: Mapping[str, Any]) -> None:
        self._spec = defaults(job_set)["spec"]
        self._name, self._namespace = job_set["metadata"]["name"], job_set["metadata"].get("namespace", "default")
        self._restarts = 0
        self._start()

    def _start(self) -> None:
        self._completed: set[str] = set()
        self._jobs = {
            (name := f"{self._name}-{replicated['name']}-{index}"): (replicated["name"], JobStatus({
                "metadata": {"name": name, "namespace": self._namespace}, "spec": replicated["template"]["spec"],
            }))
            for replicated in self._spec["replicatedJobs"] for index in range(replicated["replicas"])
        }  # fmt: skip

    def record(self, end: PodEnd) -> Decision:
        """What this controller and that of the pod's Job do now that it has ended."""
        replicated, job = self._jobs[end.owner]
        decision = job.record(end)
        if not isinstance(decision, JobEnd):
            return decision
        if decision.failed:
            return self._failed(replicated, decision)
        self._completed.add(end.owner)
        return COMPLETED if self._has_succeeded() else IndexDone()

    def _has_succeeded(self) -> bool:
        policy = self._spec["successPolicy"]
        targets = policy.get("targetReplicatedJobs") or [job["name"] for job in self._spec["replicatedJobs"]]
        counted = [name in self._completed for name, (replicated, _) in self._jobs.items() if replicated in targets]
        return all(counted) if policy["operator"] == "All" else any(counted)

    def _failed(self, job: str, end: JobEnd) -> Decision:
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
        return Restart(counted, self._restarts, RESTART_SECONDS)


def _matches(rule: Mapping[str, Any], job: str, end: JobEnd) -> bool:
    reasons, jobs = rule.get("onJobFailureReasons"), rule.get("targetReplicatedJobs")
    return (not reasons or end.reason in reasons) and (not jobs or job in jobs)
