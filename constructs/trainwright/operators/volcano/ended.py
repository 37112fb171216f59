"""What Volcano does when a pod of its Job has ended (volcano at v1.15, pkg/controllers/job).

Its policies in job_controller_util.go (applyPolicies), what they lead to in state/{running,restarting}.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.operators.ending import Controller, Decision, IndexDone, IndexFailed, JobEnd, Match, PodEnd, Replace, Restart
from trainwright.operators.operator import Around, Tree
from trainwright.operators.volcano.defaults import defaults

RESTART_SECONDS = 1
ENDS = {"AbortJob": "Aborted", "TerminateJob": "Terminated"}


def ended(manifest: Mapping[str, Any], around: Around) -> Controller:
    return JobStatus(manifest)


class JobStatus(Controller):
    """Of one Volcano Job."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._name, self._spec = job["metadata"]["name"], defaults(job)["spec"]
        self._tasks: dict[str, Tree] = {task["name"]: task for task in self._spec["tasks"]}
        self._retries, self._restarts = 0, Counter[tuple[str, int]]()
        self._succeeded, self._failed = Counter[str](), Counter[str]()

    def record(self, end: PodEnd) -> Decision:
        """The first policy that matches, those of the task before those of the Job."""
        if end.succeeded:
            self._succeeded[end.role] += 1
            done = self._succeeded[end.role] == self._tasks[end.role]["replicas"]
            action = self._action(end.role, "TaskCompleted", 0) if done else None
        else:
            code = next(one.exit_code for one in end.containers if one.exit_code)
            event = "PodEvicted" if ("DisruptionTarget", "True") in end.conditions else "PodFailed"
            action = self._action(end.role, event, code)
        match action:
            case "RestartJob" | "RestartTask":
                return self._again(end.role if action == "RestartTask" else None)
            case "RestartPod":
                self._restarts[end.role, end.index] += 1
                return Replace(Match("Count"), self._restarts[end.role, end.index], RESTART_SECONDS)
            case "CompleteJob":
                return JobEnd("Complete", "Completed", f"task {end.role} of Job {self._name} has completed")
            case "AbortJob" | "TerminateJob":
                return JobEnd("Failed", ENDS[action], f"policy {action} of Job {self._name} for pod {end.pod}")
        self._failed[end.role] += not end.succeeded
        return self._all_over() or (IndexDone() if end.succeeded else IndexFailed(Match("Count")))

    def _action(self, task: str, event: str, code: int) -> str | None:
        for policy in self._policies(task):
            events = {*policy.get("events", ()), *([policy["event"]] if "event" in policy else [])}
            if events & {event, "*"} or (code and policy.get("exitCode") == code):
                return str(policy["action"])
        return None

    def _policies(self, task: str) -> Iterator[Mapping[str, Any]]:
        yield from self._tasks[task].get("policies", ())
        yield from self._spec.get("policies", ())

    def _again(self, task: str | None) -> Decision:
        """``maxRetry`` counts attempts, the first among them."""
        self._retries += 1
        if self._retries >= self._spec["maxRetry"]:
            return JobEnd("Failed", "Failed", f"Job {self._name} has used up maxRetry {self._spec['maxRetry']}")
        for counted in (self._succeeded, self._failed):
            for name in [task] if task else self._tasks:
                counted[name] = 0
        return Restart(True, self._retries, RESTART_SECONDS, task)

    def _all_over(self) -> JobEnd | None:
        """As many as ``minSuccess`` complete the Job early; when all have ended, so do as many as ``minAvailable``."""
        least, succeeded = self._spec.get("minSuccess"), sum(self._succeeded.values())
        complete = JobEnd("Complete", "Completed", f"{succeeded} pods of Job {self._name} have succeeded")
        if least is not None and succeeded >= least:
            return complete
        if succeeded + sum(self._failed.values()) < sum(task["replicas"] for task in self._tasks.values()):
            return None
        each = all(self._succeeded[name] >= task["minAvailable"] for name, task in self._tasks.items())
        if least is None and each and succeeded >= self._spec["minAvailable"]:
            return complete
        return JobEnd("Failed", "Failed", f"{succeeded} pods of Job {self._name} have succeeded, which is not enough")
