"""Where a Volcano Job stands: a phase, and no conditions of its own (volcano.sh/apis, pkg/apis/batch/v1alpha1/job.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.objects.fields import text
from trainwright.operators.phase import Phase, Standing, because

PHASES: Mapping[str, Phase] = {
    "Completed": "done", "Failed": "failed", "Terminated": "failed", "Aborted": "failed",
}  # fmt: skip
"""A Job that is aborted can be resumed by hand, and does nothing until then."""


def status(manifest: Mapping[str, Any]) -> Standing | None:
    phase, message = text(manifest, "/status/state/phase"), text(manifest, "/status/state/message")
    if phase in PHASES:
        return Standing(PHASES[phase], because(text(manifest, "/status/state/reason") or phase, message))
    return None
