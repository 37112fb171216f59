"""The plan: every number and name of a run, decided, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trainwright.handshake import Gang
from trainwright.run import ConfigMapReference, Saver, SecretReference
from trainwright.units import Bytes, Cpu, Duration
from trainwright_trainer.contract.estimate.computation import MemoryPart


class WorldPlan(NamedTuple):
    """How many ranks there are, and on which machines."""

    nodes: int
    processes_per_node: int
    gpus_per_node: int
    size: int
    """World size: ranks in all."""
    device: str
    pool: str
    pool_reason: str
    machine: str
    """The machine in a reader's words: ``H100 80Gi, InfiniBand 8 x 400 Gb/s``."""


class RendezvousPlan(NamedTuple):
    """How the ranks find each other."""

    kind: str
    host: str
    port: int
    control_port: int | None
    """Where node 0's supervisor listens for the others; None where something else ties the pods to each other."""
    http_port: int
    """Probes and metrics."""
    hosts: str
    """Host name of pod ``{index}``."""


class ControlPlan(NamedTuple):
    """How the supervisors of a run know each other."""

    secret: str | None
    """Secret of the namespace, which pods mount."""
    key: str | None
    path: str | None
    """Of the file in a pod."""
    shown: str
    """For the plan."""


class RecoveryPlan(NamedTuple):
    """What becomes of the pods that are left when a rank or a pod is lost."""

    in_place: bool
    """They stay, and make the next attempt."""
    wait: Duration
    """For a pod to come back."""
    why_not: str
    """Why not in place; empty where it is possible."""


class BatchPlan(NamedTuple):
    """Samples of one optimizer step."""

    micro: int
    accumulation: int
    ranks: int
    """Micro batches computed at the same time: ranks, or replicas where one process drives several GPUs."""
    effective: int
    """Samples per optimizer step: micro x accumulation x ranks."""


class ElasticSize(NamedTuple):
    """What a run does at one number of nodes."""

    nodes: int
    accumulation: int
    effective: int
    """Samples per optimizer step."""
    peak: float | None
    """The learning rate there, after scaling."""
    full: bool
    """Whether all micro batches of a step are full; otherwise the last ones are smaller."""


class ElasticPlan(NamedTuple):
    """What changes with the number of nodes while the run goes on."""

    keeps_batch: bool
    sizes: tuple[ElasticSize, ...]
    """Every number of nodes, ascending."""


class LearningRatePlan(NamedTuple):
    """The rate at its peak, and the way there."""

    base: float
    peak: float
    """The rate after scaling and warm-up."""
    schedule: str | None
    warmup_steps: int
    warmup_samples: int
    reason: str


class DurationPlan(NamedTuple):
    """When training ends."""

    epochs: float | None
    steps: int | None
    """None where only the data on the machine can tell."""
    samples: int | None
    reason: str


class MemoryPlan(NamedTuple):
    """Memory of one rank: of its GPU, or of its share of the container on CPUs."""

    parts: tuple[MemoryPart, ...]
    limit: int
    limit_reason: str
    host: MemoryPlan | None = None
    """Beside a GPU: what lies on the host, with the process around it; None where that is not known."""

    @property
    def low(self) -> int:
        return sum(part.low for part in self.parts)

    @property
    def high(self) -> int:
        return sum(part.high for part in self.parts)


class CommunicationPlan(NamedTuple):
    """What the ranks send for one step of the optimizer."""

    sent: int
    """Bytes that one rank sends."""
    leaves_node: int
    """Bytes that a node sends to others, all of its ranks together."""
    formula: str
    seconds: float | None
    """At the full rate of a node's links; None on one node."""


class AmountPlan(NamedTuple):
    """What a container asks for of one resource."""

    name: str
    """As Kubernetes calls it."""
    request: str
    limit: str | None
    """None where there is none."""
    source: str
    reason: str
    request_source: str | None = None
    """Where the request is stated, if it is not the limit."""


class ResourcesPlan(NamedTuple):
    """What the plan counts with, of one pod that holds ranks."""

    cpu: Cpu
    cpu_reason: str
    memory: Bytes
    memory_reason: str
    shm: Bytes
    shm_reason: str


class EnvironmentVariable(NamedTuple):
    """A literal value, a field of the pod, or a key of a Secret or ConfigMap: exactly one."""

    name: str
    reason: str
    source: str
    value: str | None = None
    field: str | None = None
    secret: SecretReference | None = None
    config_map: ConfigMapReference | None = None
    default: bool = False
    """Whether a run may state another value."""

    @property
    def shown(self) -> str:
        """For a reader: never a secret's value, only where it comes from."""
        if self.secret:
            return f"secret {self.secret.secret}, key {self.secret.key}"
        if self.config_map:
            return f"config map {self.config_map.config_map}, key {self.config_map.key}"
        return f"field {self.field}" if self.field else self.value or ""


class CheckpointPlan(NamedTuple):
    """The directory of a run's checkpoints; and where our trainer saves, how often, and what one weighs."""

    mount: str | None
    claim: str | None
    """Both None on an object store."""
    directory: str
    """Which a program that is not ours is told."""
    saves_to: str
    """The same, or what the command of a program that saves by itself names instead."""
    lineage: str
    lineage_reason: str
    every: str | None
    """None, as all that follows, where our trainer does not save."""
    every_seconds: float | None
    every_steps: int | None
    keep: int | None
    size: int | None
    """Bytes of one checkpoint; None where the model is opaque."""
    save_seconds: float | None
    background: bool
    """Whether training goes on while a periodic one is written."""


class GracePlan(NamedTuple):
    """How long a pod that is told to end may take."""

    seconds: int
    save_seconds: int
    """What the final save may take of it."""
    reason: str


class DataPlan(NamedTuple):
    """A data set that is fetched once. Each source has a folder of its own, so that nothing changes under a run that reads."""

    path: str
    """Where the pods see it."""
    source: str
    claim: str
    mount: str
    """Where the pods mount the claim."""
    folder: str
    """Inside the volume; called after the source."""
    marker: str
    """Path in the pods' mount of the claim: a file that is there once the data is complete."""


class SecurityPlan(NamedTuple):
    """Who the processes of the pods are, and what they may do; None leaves it to the image."""

    level: str
    """Of the namespace: `restricted`, `baseline` or `privileged`."""
    user: int | None
    group: int | None
    fs_group: int | None
    non_root: bool
    """Whether the kubelet refuses to start a process of root."""
    hardened: bool
    """Whether all capabilities are dropped and none can come back, as `restricted` asks."""
    read_only_root: bool
    capabilities: tuple[str, ...]
    """Added ones."""
    privileged: bool
    sources: Mapping[str, str]
    """Field -> where it is stated: a pointer such as ``run:/security/user``."""


class GangPlan(NamedTuple):
    """Pods that start together, or not at all."""

    scheduler: str
    scheduler_name: str
    made_by: Gang
    """Who makes the group."""
    minimum: int
    """Pods with which the run may start."""
    minimum_reason: str
    queue: str | None


class PlacementPlan(NamedTuple):
    """Pods that share no node with each other."""

    nodes: int
    """Nodes that they take."""
    reason: str


class Plan(NamedTuple):
    """What ``trainwright plan`` prints, and what a target lowers."""

    run: str
    name: str
    """Of the run's objects: ``<run>-<hash>``."""
    team: str
    namespace: str
    cluster: str
    target: str
    target_title: str
    topology: str
    workload: str
    world: WorldPlan
    rendezvous: RendezvousPlan
    batch: BatchPlan | None
    learning_rate: LearningRatePlan | None
    elastic: ElasticPlan | None
    """None where the number of nodes is fixed, or where the work is opaque."""
    duration: DurationPlan | None
    memory: MemoryPlan | None
    memory_unknown: str | None
    """Why there is no estimate."""
    communication: CommunicationPlan | None
    """None where one rank is alone, or where the work is opaque or of unknown size."""
    resources: ResourcesPlan
    environment: tuple[EnvironmentVariable, ...]
    checkpoint: CheckpointPlan | None
    saved_by: Saver
    """Who saves: what is said of checkpoints follows from it."""
    grace: GracePlan
    gang: GangPlan | None
    """None where pods are scheduled one by one."""
    security: SecurityPlan
    """Who the processes are, and what they may do."""
    guarantees: tuple[str, ...]
    """In the words of :class:`~trainwright.handshake.Guarantee`."""
    data: tuple[DataPlan, ...] = ()
    """What is fetched before the first pod starts."""
    placement: PlacementPlan | None = None
    """None where pods may share a node."""
    control: ControlPlan | None = None
    """None where no supervisor listens for another."""
    recovery: RecoveryPlan | None = None
    """None where no supervisors could agree on another attempt."""
