"""Containers next to the one that trains, and what all pods of a node pool bring along."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from trainwright.model import ByKeys, DnsLabel, EnvName, LabelValue, Model, QualifiedName
from trainwright.run.surroundings import EnvValue, OfItsOwn, OwnMount, ResourceClaim
from trainwright.run.workload import Arguments, Command
from trainwright.security import Security
from trainwright.units import Bytes, Cpu, Duration
from trainwright_trainer.contract.base import ListOf, MountPath, PlacedError


class SharedMount(Model):
    """The volume that the container which trains has at a path."""

    same_as: MountPath
    """Path of that mount."""
    read_only: bool = False
    """Whether the mount is read-only."""


ContainerMount = Annotated[SharedMount | OfItsOwn, ByKeys()]

HttpPath = Annotated[str, Field(pattern=r"^/[^\x00 ]*$", max_length=1024)]

PortNumber = Annotated[int, Field(ge=1, le=65_535)]


class Probe(Model):
    """What tells whether a container is well: a command that ends with 0, or a port that answers or takes connections."""

    command: Command | None = None
    """A program in the container."""
    http: HttpPath | None = None
    """Path that is asked for, on `port`."""
    port: PortNumber | None = None
    """Number of a port; without `http` it is enough that something listens."""
    after: Duration | None = None
    """Time before the first try; default: none."""
    every: Duration = Field(default_factory=lambda: Duration.parse("10s"))
    """Time between two tries."""
    failures: Annotated[int, Field(ge=1, le=10_000)] = 3
    """How many tries in a row may fail."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.port is None) or (self.http is not None and self.port is None):
            raise ValueError("it checks nothing, or two things; write either command, or port with or without http")
        return self


LONGEST_NAME = 40
"""Characters of a container's name: volumes of its own are called after it, in a DNS label too."""

ContainerKind = Literal["init", "sidecar", "beside"]


class Container(Model):
    """A container in the pods of a run, next to the one that trains."""

    name: Annotated[DnsLabel, Field(max_length=LONGEST_NAME)]
    """Name in the pod."""
    kind: ContainerKind
    """`init` ends before the work begins; `sidecar` starts before it, and Kubernetes ends it after; `beside` starts with the work
    and has to end by itself.
    """
    image: Annotated[str, Field(min_length=1, max_length=1024)]
    """Its image, pinned by digest."""
    command: Command | None = None
    """Default: the image's entrypoint."""
    args: Arguments = ()
    """Arguments of the command, or of the entrypoint."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Its own variables; it has none of the run's."""
    mounts: dict[MountPath, ContainerMount] = Field(default_factory=dict)
    """Path in it -> a volume of its own, or one that it shares with the container that trains."""
    cpu: Cpu
    """CPUs, as request and limit: they add to those of the pod."""
    memory: Bytes
    """Memory, as request and limit."""
    security: Security = Field(default_factory=Security.model_construct)
    """Who its processes are; what is left out is as for the pod. `fs_group` is the pod's alone, and `read_only_root` brings no
    scratch here: mount some where the container writes."""
    started: Probe | None = None
    """Of a sidecar: what must be well before the next container starts."""
    ends_itself: bool = False
    """Of kind `beside`: that it ends when the work has ended; otherwise the pod would never be complete."""
    roles: ListOf[DnsLabel] = ()
    """Roles whose pods have it; default: those that hold ranks."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if self.security.fs_group is not None:
            raise PlacedError("fs_group is of the whole pod; write it under security of the run", "security", "fs_group")
        if self.started is not None and self.kind != "sidecar":
            raise PlacedError(f"started is for a sidecar, and kind is {self.kind}; remove it, or write kind: sidecar", "started")
        _ends(self)
        return self


class SharedVolume(Model):
    """The volume that the container which trains has at a path, under the name by which a container mounts it."""

    name: DnsLabel
    """What `volumeMounts` of the container calls it."""
    same_as: MountPath
    """Path of that mount."""


def _is_shared(value: object) -> str:
    return "SharedVolume" if isinstance(value, SharedVolume) or (isinstance(value, Mapping) and "same_as" in value) else "mapping"


_Volume = Annotated[dict[str, JsonValue], Field(json_schema_extra={"not": {"required": ["same_as"]}}), Tag("mapping")]

ContainerVolume = Annotated[Annotated[SharedVolume, Tag("SharedVolume")] | _Volume, Discriminator(_is_shared)]


class KubernetesContainer(Model):
    """A container in the pods of a run as Kubernetes writes it, for what the other form lacks."""

    kind: ContainerKind
    """As of any container of a run: `init`, `sidecar` or `beside`. It says `restartPolicy` too."""
    container: dict[str, JsonValue]
    """A Container, with its `name` and `image`, and requests equal to limits. Nothing is added to it."""
    volumes: ListOf[ContainerVolume] = ()
    """What its `volumeMounts` name: Volumes of its own, or `{name: …, same_as: …}` for what the container which trains mounts."""
    ends_itself: bool = False
    """Of kind `beside`: that it ends when the work has ended; otherwise the pod would never be complete."""
    roles: ListOf[DnsLabel] = ()
    """Roles whose pods have it; default: those that hold ranks."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        _ends(self)
        return self

    @property
    def name(self) -> str:
        """Name in the pod."""
        return _text(self.container, "name")

    @property
    def image(self) -> str:
        return _text(self.container, "image")

    @property
    def cpu(self) -> str:
        """Its limit; empty where it has none."""
        return _text(_mapping(_mapping(self.container, "resources"), "limits"), "cpu")

    @property
    def memory(self) -> str:
        """Its limit; empty where it has none."""
        return _text(_mapping(_mapping(self.container, "resources"), "limits"), "memory")


def _text(owner: Mapping[str, JsonValue], key: str) -> str:
    value = owner.get(key, "")
    return str(value) if isinstance(value, str | int | float) else ""


def _mapping(owner: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
    value = owner.get(key)
    return value if isinstance(value, Mapping) else {}


def _ends(container: Container | KubernetesContainer) -> None:
    if container.ends_itself and container.kind != "beside":
        raise PlacedError(f"ends_itself is for kind beside, and kind is {container.kind}; remove it", "ends_itself")


AnyContainer = Annotated[Container | KubernetesContainer, ByKeys()]


class Toleration(Model):
    """A taint that pods put up with, beside those of the pool."""

    key: QualifiedName
    """Key of the taint."""
    value: LabelValue | None = None
    """Value of the taint; default: any."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Default: every effect."""


class PoolPods(Model):
    """What every pod of a run that goes to a pool brings along, so that no run has to say it."""

    annotations: dict[QualifiedName, Annotated[str, Field(max_length=65_536)]] = Field(default_factory=dict)
    """Annotations, such as devices that an injector gives to a container. Those of a run win."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Variables of the container that trains. Those of a run win."""
    mounts: dict[MountPath, OwnMount] = Field(default_factory=dict)
    """Mounts of the container that trains, such as libraries on the node. A mount of the run at the same path wins."""
    resource_claims: dict[DnsLabel, ResourceClaim] = Field(default_factory=dict)
    """Devices that pods with ranks get by dynamic resource allocation. One of a run with the same name replaces one."""
    tolerations: ListOf[Toleration] = ()
    """Taints that are not on every node of the pool, such as those of nodes about to end."""
    containers: ListOf[AnyContainer] = ()
    """Sidecars, installers and other containers. A container of the run with the same name replaces one."""
