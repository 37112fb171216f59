"""What runs in the cluster besides Kubernetes: operators, gang schedulers, queues, and what watches the runs."""

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from trainwright.model import DnsLabel, DnsSubdomain, LabelValue, Model, QualifiedName
from trainwright.units import Duration
from trainwright_trainer.contract.base import ListOf, PlacedError

Version = Annotated[
    str, Field(pattern=r"^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})(\.(0|[1-9][0-9]{0,3}))?$", examples=["1.15.1", "1.15"])
]
"""A release: ``1.9.4``, or ``1.9`` where the patch does not matter."""


def release(version: Version) -> tuple[int, int]:
    """Major and minor number of a version."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


class Releases(NamedTuple):
    """Releases of a system, by major and minor number, whose behaviour this compiler knows."""

    first: tuple[int, int]
    last: tuple[int, int]


class Operator(Model):
    """An operator that is installed."""

    version: Version
    """Its release, with or without the patch number."""
    gang_scheduler: DnsSubdomain | None = None
    """The value of the operator's own flag, which a manifest cannot set: --gang-scheduler-name of the Training Operator,
    --gang-scheduling of the MPI Operator, --batch-scheduler of KubeRay. All three know `volcano`. For the first two, any other
    value is the name of the scheduler with the coscheduling plugin; KubeRay calls that one `scheduler-plugins`.
    """
    exclusive_placement: bool = False
    """Whether JobSets of runs have `alpha.jobset.sigs.k8s.io/exclusive-topology`, by a webhook of the platform's: each of their
    Jobs then has a place of its own, such as a rack.
    """
    restricted_containers: bool = False
    """Whether containers that the operator adds to pods pass pod security `restricted`. Those of the Training Operator do if
    its --pytorch-init-container-template-file names one that does.
    """
    init_image: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """The image of an init container that the operator adds to pods: what --pytorch-init-container-image of the Training
    Operator, or its template, names; null: the operator's own default, `alpine:3.10`. The nodes pull it, so registries and
    policies count it.
    """


Quantity = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if type(value) is int else value, json_schema_input_type=str | int),
    Field(pattern=r"^[0-9]{1,18}(\.[0-9]{1,9})?(m|[kMGTPE]|[KMGTPE]i)?$", examples=["64", "500m", "256Gi"]),
]
"""An amount of a resource, as Kubernetes writes it."""


class WaitForPodsReady(Model):
    """Kueue's `waitForPodsReady`: how long pods may take until they are ready, before Kueue suspends the whole run."""

    timeout: Duration = Field(default_factory=lambda: Duration.parse("5m"))
    """From the admission until all pods are ready (`timeout`)."""
    recovery_timeout: Duration | Literal["0s"] | None = None
    """From the loss of a pod until all are ready again (`recoveryTimeout`). `0s`: for as long as it takes; null: as `timeout`,
    and before Kueue 0.16 as `0s`.
    """
    backoff_limit: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] | None = None
    """How often the run is queued again before Kueue deactivates it (`requeuingStrategy.backoffLimitCount`); null: always."""


class Scheduling(Model):
    """Which scheduler places the pods of a run."""

    gang: Literal["volcano", "coscheduling"] | None = None
    """The scheduler that starts all pods of a run together, or none of them."""
    version: Version | None = None
    """Its release, with or without the patch number."""
    scheduler_name: DnsSubdomain | None = None
    """Its name in pods; default `volcano`, or `scheduler-plugins-scheduler`."""
    queues: ListOf[DnsSubdomain] | None = None
    """Volcano queues that runs may name; null: not checked."""
    capability: dict[DnsSubdomain, dict[QualifiedName, Quantity]] = Field(default_factory=dict)
    """Volcano queue -> resource -> the most that all of its jobs may have together: `capability` of the Queue."""
    staleness_grace: Duration | None = None
    """KAI's `--default-staleness-grace-period`, by default 60s, after which it evicts the rest of a gang that has fewer pods than
    its minimum; null: that default where profile or run name `kai-scheduler`, and elsewhere KAI does not place the pods.
    """
    with_kueue: bool = False
    """Whether gang scheduling stays on for runs in a Kueue queue; two runs can then wait for each other."""

    @property
    def name(self) -> str | None:
        """What pods say under ``schedulerName``."""
        default = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler", None: None}[self.gang]
        return self.scheduler_name or default

    @property
    def has_queues(self) -> bool:
        """Whether a run's queue may be one of the gang scheduler's."""
        return self.gang == "volcano"


class Quota(Model):
    """How much of one resource a queue has, on the nodes of one flavor."""

    nominal: Quantity
    """What is its own (`nominalQuota`)."""
    borrowing_limit: Quantity | None = None
    """The most that it may have beyond that, of other queues of its cohort (`borrowingLimit`); null: all that they lend."""
    lending_limit: Quantity | None = None
    """The most of its own that others of the cohort may have (`lendingLimit`); null: all of it."""


class Flavor(Model):
    """Nodes of one kind, as a ResourceFlavor of Kueue has them."""

    node_pools: ListOf[DnsLabel] = ()
    """Node pools that its nodes are of; empty: of any."""
    resources: dict[QualifiedName, Quota]
    """Resource -> the queue's quota of it, such as `nvidia.com/gpu: {nominal: 64}`. What is left out is not checked."""


class ClusterQueue(Model):
    """A ClusterQueue of Kueue, as far as its quota decides which runs can be admitted."""

    cohort: DnsSubdomain | None = None
    """The cohort in which queues lend each other what they do not use."""
    flavors: dict[DnsSubdomain, Flavor]
    """ResourceFlavor -> what the queue has of it."""

    @model_validator(mode="after")
    def _borrows_from_somebody(self) -> Self:
        limits = ("borrowing_limit", "lending_limit")
        for flavor, offered in self.flavors.items():
            for resource, quota in offered.resources.items():
                if stated := [limit for limit in limits if getattr(quota, limit) is not None and self.cohort is None]:
                    message = f"a queue without a cohort has no {stated[0]}; add cohort, or remove it"
                    raise PlacedError(message, "flavors", flavor, "resources", resource, stated[0])
        return self


class Kueue(Model):
    """Kueue, which admits runs to quotas."""

    version: Version
    """Its release, with or without the patch number."""
    integrations: ListOf[str] | None = None
    """Kinds that its configuration lists (`batch/job`, `jobset.x-k8s.io/jobset`, …); null: all that it supports."""
    cluster_queues: dict[DnsSubdomain, ClusterQueue] = Field(default_factory=dict)
    """ClusterQueue -> its quota. Runs of a queue that is not here are not held against any."""
    wait_for_pods_ready: WaitForPodsReady | None = None
    """What its configuration says under `waitForPodsReady`; null: it waits for no pods."""
    topology_aware: bool = True
    """Whether the flavors of its ClusterQueues name a Topology, so that a queue finds the place that `placement.together` asks
    for; otherwise pods have an affinity in a queue too."""

    @property
    def recovery_timeout(self) -> Duration | None:
        """That of a run, by Kueue's release (kueue, apis/config/v1beta2/defaults.go); None for as long as it takes."""
        waits = self.wait_for_pods_ready
        if waits is None or waits.recovery_timeout is None:
            return waits.timeout if waits and release(self.version) >= (0, 16) else None
        return waits.recovery_timeout if isinstance(waits.recovery_timeout, Duration) else None


class Queue(Model):
    """A LocalQueue of Kueue."""

    managed: bool = True
    """Whether the foundation creates it; otherwise it must already exist."""
    cluster_queue: DnsSubdomain | None = None
    """The ClusterQueue that it uses."""
    multikueue: bool = False
    """Whether that ClusterQueue sends runs to other clusters (MultiKueue). Its runs say `managedBy`, so that no controller here
    starts them."""

    @model_validator(mode="after")
    def _managed_needs_a_source(self) -> Self:
        if self.managed and self.cluster_queue is None:
            raise ValueError("a queue has a cluster_queue, or managed: false if it exists already; add one of them")
        return self


class TopologyLevel(Model):
    """A set of nodes that are close to each other, such as a rack or an NVLink domain."""

    label: QualifiedName
    """Node label whose equal values mean the same place."""


LONGEST_INTERVAL = Duration(120)
"""A sample counts for five minutes (Prometheus, --query.lookback-delta), so one lost scrape must still leave another."""


class Dashboard(Model):
    """Grafana, with the sidecar that loads dashboards from ConfigMaps."""

    label: QualifiedName = "grafana_dashboard"
    """Label key by which the sidecar finds them."""
    value: LabelValue = "1"
    """Its value."""
    namespace: DnsLabel | None = None
    """Where the sidecar looks; null: in every namespace, so that a dashboard stays with its run."""


class SupervisorImages(Model):
    """Where pods have the supervisor of a script from: their own image, or one beside it."""

    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """The image of family `supervisor`, pinned by digest: pods whose own image has no supervisor bring it along from there."""
    mounted: bool | None = None
    """Whether pods mount it as a volume; if not, an init container copies it into an emptyDir. Default: from Kubernetes 1.36 on.
    Write false where the container runtime has no volumes of images (containerd before 2.1, CRI-O before 1.31).
    """
    in_images: ListOf[Annotated[str, Field(min_length=1, max_length=253)]] = ()
    """Images, or path prefixes of them, that have trainwright-trainer in them: their runs bring nothing along."""


class Monitoring(Model):
    """What is there to watch runs with."""

    kind: Literal["prometheus-operator"]
    """Prometheus Operator: PodMonitor and PrometheusRule."""
    namespace: DnsLabel = "monitoring"
    """Where Prometheus runs: a run's NetworkPolicy admits it."""
    interval: Duration = Field(default_factory=lambda: Duration(30))
    """Time between two scrapes of a pod."""
    pod_monitor_labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels by which Prometheus selects PodMonitors (podMonitorSelector)."""
    rule_labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels by which Prometheus selects rules (ruleSelector)."""
    watches: ListOf[DnsLabel] | None = None
    """Namespaces where Prometheus looks for both (podMonitorNamespaceSelector, ruleNamespaceSelector); null: all of them."""
    dashboard: Dashboard | None = None
    """Grafana, if it loads dashboards from ConfigMaps."""
    dcgm: bool = False
    """Whether NVIDIA's dcgm-exporter is scraped, with the pods that use the GPUs in its labels."""
    runbooks: Annotated[str, Field(pattern=r"^https?://[^\s#]+$", max_length=512)] | None = None
    """Address of docs/monitoring.md for readers: alerts link to it (runbook_url); null: they have no link."""

    @field_validator("interval")
    @classmethod
    def _seen_before_it_is_forgotten(cls, interval: Duration) -> Duration:
        if interval > LONGEST_INTERVAL:
            raise ValueError(f"a sample counts for 5 min, and a scrape can be lost; write at most {LONGEST_INTERVAL}")
        return interval
