"""What a user asks for: the run."""

from trainwright.run.lifecycle import Preflight, Watchdog
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
from trainwright.run.preparation import AccessKeys, AccountKey, Preparation, SecretReference
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
    "Preflight",
    "Preparation",
    "Resources",
    "Run",
    "ScratchMount",
    "ScriptWorkload",
    "SecretReference",
    "TrainerWorkload",
    "Waiver",
    "Watchdog",
    "Workload",
]
