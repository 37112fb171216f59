"""Where a TrainJob stands: one that is well has no condition (kubeflow/trainer, trainjob_types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.operators.phase import Phase, Standing, by_condition

PHASES: Mapping[str, Phase] = {"Complete": "done", "Failed": "failed", "Suspended": "suspended"}


def status(manifest: Mapping[str, Any]) -> Standing | None:
    return by_condition(manifest, PHASES)
