"""What happens when a pod of a TrainJob has ended: what its JobSet does (kubeflow/trainer, trainjob_controller.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.operators.ending import Controller
from trainwright.operators.jobset.ended import JobSetStatus
from trainwright.operators.kubeflow_trainer.pods import pods
from trainwright.operators.operator import Around


def ended(manifest: Mapping[str, Any], around: Around) -> Controller:
    return JobSetStatus(next(one for one in pods(manifest, around).objects if one["kind"] == "JobSet"))
