"""What a user asks for: the run."""

from trainwright.run.model import (
    Batch,
    Checkpoints,
    ClaimMount,
    LearningRate,
    Mount,
    ObjectOverride,
    Overrides,
    Resources,
    Run,
    ScratchMount,
    SecretReference,
    Waiver,
)
from trainwright.run.workload import CommandWorkload, ScriptWorkload, TrainerWorkload, Workload

__all__ = [
    "Batch",
    "Checkpoints",
    "ClaimMount",
    "CommandWorkload",
    "LearningRate",
    "Mount",
    "ObjectOverride",
    "Overrides",
    "Resources",
    "Run",
    "ScratchMount",
    "ScriptWorkload",
    "SecretReference",
    "TrainerWorkload",
    "Waiver",
    "Workload",
]
