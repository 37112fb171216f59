"""The cluster profile: what a platform team has, as data."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainwright.handshake import TargetName
from trainwright.model import DnsLabel, DnsSubdomain, ExtendedResource, LabelValue, Model, QualifiedName
from trainwright.units import Bytes, Cpu, Duration

AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
PodSecurity = Literal["restricted", "baseline", "privileged"]
FabricKind = Literal["tcp", "infiniband", "roce", "efa"]


class Gpu(Model):
    """The accelerators of one node."""

    model: str = Field(min_length=1, max_length=64)
    memory: Bytes
    """Memory of one GPU."""
    per_node: Annotated[int, Field(ge=1, le=16)]
    resource: ExtendedResource = "nvidia.com/gpu"
    """Name of the extended resource that the device plugin offers."""


class Fabric(Model):
    """The network between nodes."""

    kind: FabricKind = "tcp"
    links: Annotated[int, Field(ge=1, le=64)] = 1
    """Network links of one node that training uses."""
    gigabits_per_link: Annotated[int, Field(ge=1, le=10_000)] = 10
    interface: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,15}$")] | None = None
    """Interface for bootstrap traffic, as a pod sees it."""
    hca: Annotated[str, Field(pattern=r"^[=^]?[A-Za-z0-9_:,\-]+$", max_length=512)] | None = None
    """Value of NCCL_IB_HCA; start it with ``=`` for exact names."""
    resource: ExtendedResource | None = None
    """Extended resource that gives a pod its RDMA devices."""
    resource_count: Annotated[int, Field(ge=1, le=64)] = 1
    ipc_lock: bool = False
    """Whether to add CAP_IPC_LOCK to RDMA pods, because the node's runtime limits locked memory. Prefer unlimited memlock there:
    pods run as a user, and a runtime that does not make added capabilities ambient gives them to root only (kubernetes#56374)."""


class Taint(Model):
    key: QualifiedName
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Spot(Model):
    """Nodes that can be taken back."""

    notice: Duration
    """Time between the notice and the end of the node."""


class NodePool(Model):
    """Nodes of one kind."""

    cpus: Cpu
    memory: Bytes
    gpu: Gpu | None = None
    fabric: Fabric = Field(default_factory=Fabric.model_construct)
    labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    spot: Spot | None = None

    @model_validator(mode="after")
    def _resources_differ(self) -> Self:
        if self.gpu and self.gpu.resource == self.fabric.resource:
            raise ValueError(f"gpu and fabric are both called {self.gpu.resource}; give each the name its device plugin offers")
        return self


class Claim(Model):
    """A PersistentVolumeClaim."""

    managed: bool = True
    """Whether the foundation creates it; otherwise it is there already."""
    storage_class: DnsSubdomain | None = None
    size: Bytes | None = None
    access: AccessMode = "ReadWriteMany"
    write_mebibytes_per_second: Annotated[int, Field(ge=1, le=10_000_000)] = 200
    """Sequential write bandwidth that one pod can count on; decides the grace period."""


class Namespace(Model):
    managed: bool = True
    """Whether the foundation creates it; otherwise it is there already."""
    pod_security: PodSecurity = "restricted"
    claims: dict[DnsSubdomain, Claim] = Field(default_factory=dict)


class StorageClass(Model):
    access: tuple[AccessMode, ...] = ("ReadWriteOnce",)
    """Access modes that volumes of this class support."""


class Cluster(Model):
    """One cluster, as its platform team describes it."""

    cluster: DnsLabel
    kubernetes: Annotated[str, Field(pattern=r"^1\.(0|[1-9][0-9]{0,2})$")]
    default_target: TargetName = "indexed-job"
    node_pools: Annotated[dict[DnsLabel, NodePool], Field(min_length=1)]
    namespaces: dict[DnsLabel, Namespace] = Field(default_factory=dict)
    storage_classes: dict[DnsSubdomain, StorageClass] = Field(default_factory=dict)
    registries: tuple[Annotated[str, Field(min_length=1, max_length=253)], ...] = ()
    """Registries, or path prefixes in them, that images may come from; empty allows any."""
