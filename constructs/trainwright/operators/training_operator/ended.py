"""What the Training Operator does when a pod has ended (kubeflow/training-operator at v1.9.4).

pkg/controller.v1/common/{job,pod}.go: pods that may start again are deleted and made again at once. When the job is over is said
by pkg/controller.v1/{pytorch,tensorflow,xgboost}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from trainwright.operators.ending import Controller, Decision, IndexDone, IndexFailed, JobEnd, Match, PodEnd, Replace
from trainwright.operators.operator import Around
from trainwright.operators.training_operator.pods import KINDS, LEADERS, pods

RETRYABLE = 128
"""Exit codes from here on start a pod again under the policy ``ExitCode`` (pkg/util/train/train_util.go)."""
DEFAULT_POLICIES = {"PyTorchJob": "OnFailure", "TFJob": "Never", "XGBoostJob": "Never"}
"""Of a role that states none (pkg/apis/kubeflow.org/v1, defaults)."""


def ended(manifest: Mapping[str, Any], around: Around) -> Controller:
    return JobStatus(manifest, around)


class JobStatus(Controller):
    """Of one PyTorchJob, TFJob or XGBoostJob."""

    def __init__(self, job: Mapping[str, Any], around: Around) -> None:
        self._kind, self._name, policy = job["kind"], job["metadata"]["name"], job["spec"].get("runPolicy") or {}
        self._container = KINDS[self._kind].container
        specs = job["spec"][KINDS[self._kind].specs]
        self._policies = {role.lower(): one.get("restartPolicy") or DEFAULT_POLICIES[self._kind] for role, one in specs.items()}
        self._pods = Counter(pod.role for pod in pods(job, around).pods)
        self._all_workers = job["spec"].get("successPolicy") == "AllWorkers"
        self._limit: int | None = policy.get("backoffLimit")
        self.deadline_seconds = policy.get("activeDeadlineSeconds")
        self._succeeded: set[tuple[str, int]] = set()
        self._replaced = Counter[tuple[str, int]]()

    def record(self, end: PodEnd) -> Decision:
        key = end.role, end.index
        if end.succeeded:
            self._succeeded.add(key)
            message = f"{self._kind} {self._name} successfully completed."
            return JobEnd("Complete", f"{self._kind}Succeeded", message) if self._is_done(end) else IndexDone()
        policy = self._policies[end.role]
        code = next((one.exit_code for one in end.containers if one.name == self._container and one.exit_code), 0)
        if policy in ("Always", "OnFailure") or (policy == "ExitCode" and code >= RETRYABLE):
            self._replaced[key] += 1
            return Replace(Match("Count"), self._replaced[key], 0)
        if end.role == "evaluator":  # the operator watches the others alone (tensorflow/tfjob_controller.go)
            return IndexFailed(Match("Count"))
        failed = f"{self._kind} {self._name} is failed because 1 {end.role.capitalize()} replica(s) failed."
        return JobEnd("Failed", f"{self._kind}Failed", failed)

    def _is_done(self, end: PodEnd) -> bool:
        """The first of a PyTorchJob's or XGBoostJob's master ends it; so does any worker of an elastic job, which has no master.
        A TFJob ends with its chief; without one with worker 0, or with all workers where ``successPolicy`` says so."""
        leader = next((role for role in LEADERS if role in self._pods), None)
        if leader:
            return end.role == leader
        if end.role != "worker":
            return False
        workers = sum(role == "worker" for role, _ in self._succeeded)
        if self._kind != "TFJob":
            return True
        return workers == self._pods["worker"] or (end.index == 0 and not self._all_workers)

    def restarted(self, restarts: int) -> JobEnd | None:
        """It adds up the restarts of containers (PastBackoffLimit)."""
        if self._limit is None or restarts < self._limit or not {"OnFailure", "Always"} & set(self._policies.values()):
            return None
        message = f"Job {self._name} has failed because it has reached the specified backoff limit"
        return JobEnd("Failed", f"{self._kind}Failed", message)
