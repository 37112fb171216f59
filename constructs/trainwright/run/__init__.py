"""What a user asks for: the run."""

from trainwright.run.model import (
    Batch,
    Checkpoints,
    ClaimMount,
    LearningRate,
    Mount,
    ObjectOverride,
    Overrides,
    Placement,
    Resources,
    Run,
    ScratchMount,
    Waiver,
)
from trainwright.run.prepare import AccessKeys, AccountKey, Preparation
from trainwright.run.secret import SecretReference
from trainwright.run.workload import BoostingWorkload, CommandWorkload, ScriptWorkload, TrainerWorkload, Workload

__all__ = [
    "AccessKeys",
    "AccountKey",
    "Batch",
    "BoostingWorkload",
    "Checkpoints",
    "ClaimMount",
    "CommandWorkload",
    "LearningRate",
    "Mount",
    "ObjectOverride",
    "Overrides",
    "Placement",
    "Preparation",
    "Resources",
    "Run",
    "ScratchMount",
    "ScriptWorkload",
    "SecretReference",
    "TrainerWorkload",
    "Waiver",
    "Workload",
]
