"""What a user asks for: the run."""

from trainwright.run.containers import Container, PoolPods, Probe, SharedMount, Toleration
from trainwright.run.life import PreStop, Probes
from trainwright.run.lifecycle import Preflight, Watchdog
from trainwright.run.model import (
    Batch,
    Checkpoints,
    LearningRate,
    ObjectOverride,
    Overrides,
    Placement,
    Run,
    Waiver,
)
from trainwright.run.nodes import NodeAffinity, NodeLabel, PreferredNode
from trainwright.run.preparation import AccessKeys, AccountKey, Preparation
from trainwright.run.resources import Requests, Resources, RoleParts
from trainwright.run.surroundings import (
    ClaimMount,
    ConfigMapMount,
    ConfigMapReference,
    CsiMount,
    EnvSource,
    EnvValue,
    EphemeralMount,
    FieldReference,
    HostPathMount,
    Mount,
    NfsMount,
    ScratchMount,
    SecretMount,
    SecretReference,
    WholeConfigMap,
    WholeSecret,
)
from trainwright.run.workload import BoostingWorkload, CommandWorkload, ScriptWorkload, TrainerWorkload, Workload
from trainwright.security import Security

__all__ = [
    "AccessKeys",
    "AccountKey",
    "Batch",
    "BoostingWorkload",
    "Checkpoints",
    "ClaimMount",
    "CommandWorkload",
    "ConfigMapMount",
    "ConfigMapReference",
    "Container",
    "CsiMount",
    "EnvSource",
    "EnvValue",
    "EphemeralMount",
    "FieldReference",
    "HostPathMount",
    "LearningRate",
    "Mount",
    "NfsMount",
    "NodeAffinity",
    "NodeLabel",
    "ObjectOverride",
    "Overrides",
    "Placement",
    "PoolPods",
    "PreStop",
    "PreferredNode",
    "Preflight",
    "Preparation",
    "Probe",
    "Probes",
    "Requests",
    "Resources",
    "RoleParts",
    "Run",
    "ScratchMount",
    "ScriptWorkload",
    "SecretMount",
    "SecretReference",
    "Security",
    "SharedMount",
    "Toleration",
    "TrainerWorkload",
    "Waiver",
    "Watchdog",
    "WholeConfigMap",
    "WholeSecret",
    "Workload",
]
