"""Where a RayJob stands, by the state of its deployment (ray-project/kuberay, ray-operator/apis/ray/v1/rayjob_types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.objects.fields import text
from trainwright.operators.phase import Phase, Standing, because, by_condition

PHASES: Mapping[str, Phase] = {
    "Failed": "failed", "ValidationFailed": "failed", "Suspended": "suspended", "Suspending": "suspended",
}  # fmt: skip
OF_JOB: Mapping[str, Phase] = {"SUCCEEDED": "done", "FAILED": "failed", "STOPPED": "failed"}
"""How Ray says that the job has ended, where the deployment is Complete."""


def status(manifest: Mapping[str, Any]) -> Standing | None:
    """A RayJob is Running while its submitter fails. Of a RayCluster its pods alone decide."""
    state, of_job = text(manifest, "/status/jobDeploymentStatus"), text(manifest, "/status/jobStatus")
    phase = OF_JOB.get(of_job) if state == "Complete" else PHASES.get(state)
    if phase is None:
        return by_condition(manifest, {"Suspended": "suspended"})
    return Standing(phase, because(text(manifest, "/status/reason") or state, text(manifest, "/status/message")))
