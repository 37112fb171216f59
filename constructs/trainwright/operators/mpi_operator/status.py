"""Where an MPIJob stands (kubeflow/mpi-operator, pkg/apis/kubeflow/v2beta1/types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.operators.phase import Phase, Standing, by_condition

PHASES: Mapping[str, Phase] = {"Succeeded": "done", "Failed": "failed", "Suspended": "suspended"}


def status(manifest: Mapping[str, Any]) -> Standing | None:
    """With an evicted worker it says Failed, and its launcher goes on."""
    return by_condition(manifest, PHASES, besides=["MPIJobEvicted"])
