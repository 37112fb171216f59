"""The cluster profile: what a platform team has, as data."""

import re
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from trainwright.cluster.addons import Kueue, Monitoring, Operator, Queue, Scheduling, TopologyLevel
from trainwright.cluster.runtimes import InstalledRuntime
from trainwright.handshake import OperatorName, TargetName
from trainwright.model import DnsLabel, DnsSubdomain, ExtendedResource, LabelValue, Model, QualifiedName
from trainwright.run.containers import PoolPods
from trainwright.run.model import Waiver
from trainwright.security import Security
from trainwright.units import Bytes, Cpu, Duration
from trainwright_trainer.contract.base import ListOf, PlacedError

AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
PodSecurity = Literal["restricted", "baseline", "privileged"]
FabricKind = Literal["tcp", "infiniband", "roce", "efa"]


_INTERFACE = r"[A-Za-z0-9_.\-]{1,15}"
"""Name of a network interface (Linux, IFNAMSIZ)."""


Interfaces = Annotated[
    str,
    BeforeValidator(
        lambda value: ",".join(value) if isinstance(value, list) and all(isinstance(name, str) for name in value) else value,
        json_schema_input_type=str | list[str],
    ),
    Field(max_length=255),
]
"""Network interfaces by their exact names, with commas between them or as a list."""

NetworkAnnotation = Annotated[
    str, Field(pattern=r"^(networking\.gke\.io|k8s\.v1\.cni\.cncf\.io)/[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$")
]
"""The key of an annotation that attaches networks to a pod, on GKE and with Multus."""


class Gpu(Model):
    """The accelerators of one node."""

    model: str = Field(min_length=1, max_length=64)
    """Model name, as the plan shows it."""
    memory: Bytes
    """Memory of one GPU."""
    per_node: Annotated[int, Field(ge=1, le=16)]
    """GPUs of one node."""
    resource: ExtendedResource = "nvidia.com/gpu"
    """Name of the extended resource that the device plugin offers."""
    utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the dense 16-bit peak that training reaches on these GPUs (MFU), as measured. If left out, what a plan says of
    [scaling](scaling.md) assumes 0.4, and says so."""


class Fabric(Model):
    """The network between nodes."""

    kind: FabricKind = "tcp"
    """The protocol that NCCL uses."""
    links: Annotated[int, Field(ge=1, le=64)] = 1
    """Network links of one node that training uses."""
    gigabits_per_link: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Speed of one link."""
    interface: Interfaces | None = None
    """Interface for bootstrap traffic, as a pod sees it, by its exact name; or several, as a list or with commas between them."""
    host_interface: Interfaces | None = None
    """The same, as a run on the node's network (`host_network`) sees it; if left out, NCCL and gloo choose."""
    hca: Annotated[str, Field(pattern=r"^[=^]?[A-Za-z0-9_:,\-]+$", max_length=512)] | None = None
    """Value of NCCL_IB_HCA; start it with ``=`` for exact names."""
    gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """Index of the RoCE address, if it is the same on all nodes and NCCL does not find it itself (it does since 2.21)."""
    traffic_class: Annotated[int, Field(ge=0, le=255)] | None = None
    """Traffic class of RoCE that the switches keep lossless."""
    gpu_direct: bool | None = None
    """Whether adapters can access GPU memory; if left out, NCCL finds out. Set it to false if NCCL finds out wrongly."""
    resource: ExtendedResource | None = None
    """Extended resource that gives a pod its RDMA devices."""
    resource_count: Annotated[int, Field(ge=1, le=64)] = 1
    """How many of them a pod with all GPUs of a node requests; one with a part of them requests that part, and at least one."""
    pod_annotations: dict[NetworkAnnotation, Annotated[str, Field(min_length=1, max_length=4096)]] = Field(default_factory=dict)
    """Annotations by which GKE or Multus gives a pod its adapters as networks; pods that train over several nodes get them."""
    ipc_lock: bool = False
    """Whether to add CAP_IPC_LOCK to RDMA pods, because the node's runtime limits locked memory. Prefer unlimited memlock there:
    pods run as a user, and a runtime that does not make added capabilities ambient gives them to root only (kubernetes#56374)."""

    @property
    def kind_is_stated(self) -> bool:
        """Whether the profile says what the network is; if not, estimates count with TCP, and NCCL looks for itself."""
        return "kind" in self.model_fields_set

    @field_validator("interface", "host_interface")
    @classmethod
    def _are_names(cls, names: str | None) -> str | None:
        if names is not None and not re.fullmatch(rf"{_INTERFACE}(,{_INTERFACE})*", names):
            raise ValueError(
                f"{names} is not a list of exact names; write the interfaces that pods have, such as eth0 or eth0,eth1: gloo and "
                "mpirun know no ^ and no prefixes"
            )
        return names

    @model_validator(mode="after")
    def _settings_fit_the_kind(self) -> Self:
        foreign = [name for name in ("gid_index", "traffic_class") if getattr(self, name) is not None and self.kind != "roce"]
        foreign += ["gpu_direct"] if self.gpu_direct and self.kind == "tcp" else []
        if foreign:
            message = f"a fabric of kind {self.kind} has no {' and no '.join(foreign)}; remove it, or change the kind"
            raise PlacedError(message, foreign[0])
        return self


class Taint(Model):
    key: QualifiedName
    """Key of the taint, which every run of the pool tolerates."""
    value: LabelValue = ""
    """Value of the taint; empty if it has none."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """What it does to pods that do not tolerate it."""


class Spot(Model):
    """Nodes that can be reclaimed."""

    notice: Duration
    """Time between the notice and the end of the node."""


class NodePool(Model):
    """Nodes of one kind."""

    cpus: Cpu
    """Of one node."""
    memory: Bytes
    """Of one node."""
    nodes: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """How many nodes the pool has, or may grow to; if left out, no run is too large for it."""
    gpu: Gpu | None = None
    """GPUs of a node; a pool without them runs on CPUs."""
    fabric: Fabric = Field(default_factory=Fabric.model_construct)
    """Network between the nodes; default: TCP at 10 Gb/s."""
    labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels that select its nodes: the pods' nodeSelector."""
    taints: ListOf[Taint] = ()
    """Taints of its nodes, which the pods tolerate."""
    spot: Spot | None = None
    """Set this if nodes can be reclaimed."""
    pods: PoolPods = Field(default_factory=PoolPods.model_construct)
    """What every pod of a run that goes here brings along: sidecars, annotations, mounts, variables and tolerations."""

    @model_validator(mode="after")
    def _resources_differ(self) -> Self:
        if self.gpu and self.gpu.resource == self.fabric.resource:
            message = f"gpu and fabric are both called {self.gpu.resource}; give each the name its device plugin offers"
            raise PlacedError(message, "fabric", "resource")
        return self


class Claim(Model):
    """A PersistentVolumeClaim."""

    managed: bool = True
    """Whether the foundation creates it; otherwise it must already exist."""
    storage_class: DnsSubdomain | None = None
    """Default: the cluster's."""
    size: Bytes | None = None
    """Required if the foundation creates it."""
    access: AccessMode = "ReadWriteMany"
    """Access mode."""
    write_mebibytes_per_second: Annotated[int, Field(ge=1, le=10_000_000)] = 200
    """Sequential write bandwidth that a pod can rely on; decides the grace period."""


class ControlSecret(Model):
    """A Secret by which the pods of a run prove to each other that they are its own. It is made in the cluster, never in Git."""

    name: DnsSubdomain
    """Name of the Secret."""
    key: Annotated[str, Field(pattern=r"^[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", max_length=253)] = "secret"
    """Which of its keys to mount: at least 16 random bytes, better 32."""


class Namespace(Model):
    managed: bool = True
    """Whether the foundation creates it; otherwise it must already exist."""
    pod_security: PodSecurity = "restricted"
    """Pod security standard of the namespace; what a run needs beyond it is a finding."""
    security: Security = Field(default_factory=Security.model_construct)
    """Defaults for `security` of scripts and commands here, before those of the cluster."""
    claims: dict[DnsSubdomain, Claim] = Field(default_factory=dict)
    """PersistentVolumeClaims that runs can mount."""
    queues: dict[DnsSubdomain, Queue] = Field(default_factory=dict)
    """LocalQueues of Kueue."""
    control_secret: ControlSecret | None = None
    """Secret by which the pods of a run know each other; if left out, they take each other at their word."""


class StorageClass(Model):
    access: ListOf[AccessMode] = ("ReadWriteOnce",)
    """Access modes that volumes of this class support."""


class Cluster(Model):
    """One cluster, as its platform team describes it."""

    cluster: DnsLabel
    """Name of the cluster, and of its file."""
    kubernetes: Annotated[str, Field(pattern=r"^1\.(0|[1-9][0-9]{0,2})$", examples=["1.34"])]
    """Version of the API server, without the patch."""
    uid: Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] | None = None
    """Uid of its namespace `kube-system`, which no other cluster has. `apply` refuses a context that leads elsewhere."""
    default_target: TargetName = "indexed-job"
    """The target of a run that names none."""
    operators: dict[OperatorName, Operator] = Field(default_factory=dict)
    """The installed operators, with their releases."""
    scheduling: Scheduling = Field(default_factory=Scheduling.model_construct)
    """The gang scheduler, if there is one."""
    kueue: Kueue | None = None
    """Kueue, if it is installed."""
    topology: dict[DnsLabel, TopologyLevel] = Field(default_factory=dict)
    """Name of a topology level, such as `rack` -> its node label, the widest first."""
    priorities: ListOf[DnsSubdomain] | None = None
    """PriorityClasses that runs may name; null: not checked."""
    node_lost: Duration = Field(default_factory=lambda: Duration.parse("60s"))
    """How long a node may be not ready or unreachable before pods of runs are evicted there; Kubernetes' own default is 300s."""
    network_policy: bool = False
    """Whether runs are isolated: their ranks admit each other, the scraper of the metrics and nobody else."""
    monitoring: Monitoring | None = None
    """Monitoring of the runs: metrics, alerts and dashboards."""
    node_pools: Annotated[dict[DnsLabel, NodePool], Field(min_length=1)]
    """Kinds of nodes, in the order in which a run looks for one that fits."""
    security: Security = Field(default_factory=Security.model_construct)
    """Defaults for `security` of scripts and commands; our trainer's pods state their own."""
    namespaces: dict[DnsLabel, Namespace] = Field(default_factory=dict)
    """Namespaces for runs, with their storage and queues."""
    storage_classes: dict[DnsSubdomain, StorageClass] = Field(default_factory=dict)
    """Storage classes that claims may name, with the access modes of their volumes."""
    registries: ListOf[Annotated[str, Field(min_length=1, max_length=253)]] = ()
    """Registries, or path prefixes in them, that images may come from; if empty, all are allowed."""
    runtimes: dict[DnsSubdomain, InstalledRuntime] = Field(default_factory=dict)
    """Runtimes of Kubeflow Trainer that the platform team has installed, by the names that TrainJobs use."""
    package_index: Annotated[str, Field(pattern=r"^https?://[^\s@?#]+$", max_length=512)] | None = None
    """Index of Python packages that pods reach without credentials, as pip's `--index-url`: what scripts state under `packages`
    comes from there.
    """
    waivers: ListOf[Waiver] = ()
    """Findings about this profile that its platform team accepts, such as what a vendor's guide asks for, for all runs."""

    def allows(self, image: str) -> bool:
        """Whether pods may have an image."""
        return not self.registries or is_from(image, self.registries)


def is_from(image: str, prefixes: Iterable[str]) -> bool:
    """Whether an image is one of these, or below one: registries, or path prefixes in them."""
    return any(image == prefix or image.startswith(f"{prefix}/") for prefix in (one.rstrip("/") for one in prefixes))
