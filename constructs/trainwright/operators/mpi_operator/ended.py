"""What happens when a pod of an MPIJob has ended (kubeflow/mpi-operator at v0.8, pkg/controller/mpi_job_controller.go).

The launcher is a Job's, whose controller replaces it, and whose end is that of the run. Workers are pods of the operator's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.operators.ending import Controller, Decision, IndexDone, IndexFailed, JobEnd, Match, PodEnd
from trainwright.operators.job.ended import JobStatus
from trainwright.operators.mpi_operator.pods import pods
from trainwright.operators.operator import Around


def ended(manifest: Mapping[str, Any], around: Around) -> Controller:
    return MPIJobStatus(manifest, around)


class MPIJobStatus(Controller):
    """Of one MPIJob."""

    def __init__(self, job: Mapping[str, Any], around: Around) -> None:
        self._launcher = JobStatus(next(one for one in pods(job, around).objects if one["kind"] == "Job"))
        self._name = job["metadata"]["name"]
        self.deadline_seconds = self._launcher.deadline_seconds

    def record(self, end: PodEnd) -> Decision:
        """A worker that has failed stays so, and mpirun finds out; one that was evicted ends the run."""
        if end.role == "launcher":
            return self._launcher.record(end)
        if end.succeeded:
            return IndexDone()
        if ("DisruptionTarget", "True") in end.conditions:
            return JobEnd("Failed", "MPIJobEvicted", f"1/1 workers are evicted: {end.pod}")
        return IndexFailed(Match("Count"))
