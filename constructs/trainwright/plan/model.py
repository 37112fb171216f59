"""The plan: every number and name of a run, decided, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.run import SecretReference
from trainwright.units import Bytes, Cpu


@dataclass(frozen=True)
class WorldPlan:
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


@dataclass(frozen=True)
class RendezvousPlan:
    kind: str
    host: str
    port: int
    control_port: int
    hosts: str
    """Host name of pod ``{index}``."""


@dataclass(frozen=True)
class BatchPlan:
    micro: int
    accumulation: int
    ranks: int
    effective: int
    """Samples per optimizer step: micro x accumulation x ranks."""


@dataclass(frozen=True)
class LearningRatePlan:
    base: float
    peak: float
    """The rate after scaling and warm-up."""
    schedule: str | None
    warmup_steps: int
    warmup_samples: int
    reason: str


@dataclass(frozen=True)
class DurationPlan:
    epochs: float | None
    steps: int | None
    """None where only the data on the machine can tell."""
    samples: int | None
    reason: str


@dataclass(frozen=True)
class MemoryPart:
    """Bytes of one rank, as an interval."""

    name: str
    low: int
    high: int
    formula: str


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of one rank: of its GPU, or of its share of the container on CPUs."""

    parts: tuple[MemoryPart, ...]
    limit: int
    limit_reason: str

    @property
    def low(self) -> int:
        return sum(part.low for part in self.parts)

    @property
    def high(self) -> int:
        return sum(part.high for part in self.parts)


@dataclass(frozen=True)
class ResourcesPlan:
    """Of one pod; requests equal limits."""

    cpu: Cpu
    cpu_reason: str
    memory: Bytes
    memory_reason: str
    shm: Bytes
    shm_reason: str


@dataclass(frozen=True)
class EnvironmentVariable:
    """A literal value, a field of the pod, or a key of a Secret: exactly one."""

    name: str
    reason: str
    source: str
    value: str | None = None
    field: str | None = None
    secret: SecretReference | None = None

    @property
    def shown(self) -> str:
        """For a reader: never a secret's value, only where it comes from."""
        if self.secret:
            return f"secret {self.secret.secret}, key {self.secret.key}"
        return f"field {self.field}" if self.field else self.value or ""


@dataclass(frozen=True)
class CheckpointPlan:
    mount: str
    claim: str | None
    directory: str
    lineage: str
    lineage_reason: str
    every: str
    every_seconds: float | None
    every_steps: int | None
    keep: int
    size: int | None
    """Bytes of one checkpoint; None where the model is opaque."""
    save_seconds: float | None


@dataclass(frozen=True)
class GracePlan:
    seconds: int
    save_seconds: int
    """What the final save may take of it."""
    reason: str


@dataclass(frozen=True)
class Plan:
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
    duration: DurationPlan | None
    memory: MemoryPlan | None
    memory_unknown: str | None
    """Why there is no estimate."""
    resources: ResourcesPlan
    environment: tuple[EnvironmentVariable, ...]
    checkpoint: CheckpointPlan | None
    grace: GracePlan
    guarantees: tuple[str, ...]
    """In the words of :class:`~trainwright.handshake.Guarantee`."""
