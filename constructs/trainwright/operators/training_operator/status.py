"""Where a PyTorchJob, TFJob or XGBoostJob stands: Running as soon as its master runs (common_types.go), so pods are asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.operators.phase import Phase, Standing, by_condition

PHASES: Mapping[str, Phase] = {"Succeeded": "done", "Failed": "failed", "Suspended": "suspended"}


def status(manifest: Mapping[str, Any]) -> Standing | None:
    return by_condition(manifest, PHASES)
