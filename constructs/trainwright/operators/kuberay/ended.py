"""What KubeRay does when a pod of a RayJob has ended (ray-project/kuberay at v1.7, ray{job,cluster}_controller.go).

The submitter is a Job's. Its end says that there is something to ask: whether the run has succeeded is Ray's word, since
``ray job logs --follow`` ends with 0 for a job that has failed too. Head and workers are made again whatever they ended with.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from trainwright.operators.ending import Controller, Decision, JobEnd, Match, PodEnd, Question, Replace, Restart
from trainwright.operators.job.ended import JobStatus
from trainwright.operators.kuberay.pods import SUBMITTER, pods
from trainwright.operators.kuberay.status import OF_JOB
from trainwright.operators.operator import Around

RETRY_SECONDS = 3
"""Between two looks of the controller (RayJobDefaultRequeueDuration): it waits until the old cluster is gone."""
GRACE_SECONDS = 30
"""For Ray's word, once the submitter has ended (DefaultSubmitterFinishedTimeout)."""


def ended(manifest: Mapping[str, Any], around: Around) -> Controller | None:
    """None of a RayCluster, and where the operator hands the job in by itself: then no pod's end is the job's."""
    by_submitter = manifest["kind"] == "RayJob" and manifest["spec"].get("submissionMode", "K8sJobMode") == "K8sJobMode"
    return RayJobStatus(manifest, around) if by_submitter else None


class RayJobStatus(Controller):
    """Of one RayJob with a submitter. It does not know ``preRunningDeadlineSeconds``, or what becomes of the cluster."""

    def __init__(self, job: Mapping[str, Any], around: Around) -> None:
        made, spec = pods(job, around), job["spec"]
        self._submitter = next(one for one in made.objects if one["kind"] == "Job")
        [pod] = [one for one in made.pods if one.role == SUBMITTER]
        told = {one["name"]: one.get("value", "") for one in pod.spec["containers"][0]["env"]}
        port = told["RAY_DASHBOARD_ADDRESS"].rpartition(":")[2]
        self._question = Question("head", int(port), f"/api/jobs/{told['RAY_JOB_SUBMISSION_ID']}")
        self._answer, self._retries = "", spec.get("backoffLimit") or 0
        self._failed, self._replaced = 0, Counter[tuple[str, int]]()
        self._submission = JobStatus(self._submitter)
        self.deadline_seconds = spec.get("activeDeadlineSeconds")

    def asks(self, end: PodEnd) -> Question | None:
        return self._question if end.role == SUBMITTER else None

    def heard(self, answer: str) -> None:
        self._answer = answer

    def record(self, end: PodEnd) -> Decision:
        if end.role != SUBMITTER:
            self._replaced[end.role, end.index] += 1
            return Replace(Match("Count"), self._replaced[end.role, end.index], 0)
        decision = self._submission.record(end)
        if not isinstance(decision, JobEnd):
            return decision
        status, message = self._said()
        if not decision.failed and OF_JOB.get(status) == "done":
            return JobEnd("Complete", status, message)
        if not decision.failed and status == "STOPPED":  # its deployment is Complete, and that is not tried again
            return JobEnd("Failed", status, message)
        if status == "FAILED":
            return self._again("AppFailed", message)
        if decision.failed:
            why = f"Reason: {decision.reason}. Message: {decision.message}"
            return self._again("SubmissionFailed", f"Job submission has failed. {why}")
        if self._answer and not status:
            return self._again("AppFailed", "Submitter completed but Ray job not found in RayCluster.")
        message = f"The RayJob submitter finished but the ray job did not reach terminal state within {GRACE_SECONDS}s"
        return self._again("JobDeploymentStatusTransitionGracePeriodExceeded", message)

    def _said(self) -> tuple[str, str]:
        """State and message, by the dashboard's API of jobs; empty for a job that it does not know."""
        try:
            found = json.loads(self._answer)
            return str(found["status"]), str(found.get("message") or "")
        except (ValueError, TypeError, KeyError):
            return "", ""

    def _again(self, reason: str, message: str) -> Decision:
        """With a new cluster, as often as ``backoffLimit`` says (checkBackoffLimitAndUpdateStatusIfNeeded)."""
        self._failed += 1
        if self._failed > self._retries:
            return JobEnd("Failed", reason, message)
        self._submission = JobStatus(self._submitter)
        self._replaced.clear()
        return Restart(True, self._failed, RETRY_SECONDS)
