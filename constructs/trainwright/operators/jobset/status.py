"""Where a JobSet stands (sigs.k8s.io/jobset, api/jobset/v1alpha2/jobset_types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.operators.phase import Phase, Standing, by_condition

PHASES: Mapping[str, Phase] = {"Completed": "done", "Failed": "failed", "Suspended": "suspended"}


def status(manifest: Mapping[str, Any]) -> Standing | None:
    return by_condition(manifest, PHASES)
