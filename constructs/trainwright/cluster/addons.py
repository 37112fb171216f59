"""What runs in the cluster beside Kubernetes: operators, gang schedulers and queues."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainwright.model import DnsSubdomain, Model, QualifiedName

Version = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})(\.(0|[1-9][0-9]{0,3}))?$")]
"""A release: ``1.9.4``, or ``1.9`` where the patch does not matter."""


def release(version: Version) -> tuple[int, int]:
    """Major and minor number of a version."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


class Operator(Model):
    """An operator that is installed."""

    version: Version
    """Its release; the patch may be left out."""
    gang_scheduler: DnsSubdomain | None = None
    """What the operator's own flag says; a manifest cannot set it. It is --gang-scheduler-name of the Training Operator,
    --gang-scheduling of the MPI Operator and --batch-scheduler of KubeRay. All three know `volcano`. For the first two any other
    value is the name of the scheduler with the coscheduling plugin; KubeRay calls that one `scheduler-plugins`."""
    restricted_containers: bool = False
    """Whether containers that the operator adds to pods pass pod security `restricted`. Those of the Training Operator do where
    its --pytorch-init-container-template-file names one that does."""


class Scheduling(Model):
    """Who places the pods of a run."""

    gang: Literal["volcano", "coscheduling"] | None = None
    """The scheduler that starts all pods of a run together, or none of them."""
    version: Version | None = None
    """Its release; the patch may be left out."""
    scheduler_name: DnsSubdomain | None = None
    """Its name in pods; default `volcano`, or `scheduler-plugins-scheduler`."""
    queues: tuple[DnsSubdomain, ...] | None = None
    """Queues of Volcano that runs may name; null: not checked."""
    with_kueue: bool = False
    """Whether gang scheduling stays on for runs in a Kueue queue: two gates, which can wait for each other."""

    @property
    def name(self) -> str | None:
        """What pods say under ``schedulerName``."""
        default = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler", None: None}[self.gang]
        return self.scheduler_name or default


class Kueue(Model):
    """Kueue, which admits runs to quotas."""

    version: Version
    """Its release; the patch may be left out."""
    integrations: tuple[str, ...] | None = None
    """Kinds that its configuration lists (`batch/job`, `jobset.x-k8s.io/jobset`, …); null: all that it knows."""


class Queue(Model):
    """A LocalQueue of Kueue."""

    managed: bool = True
    """Whether the foundation creates it; otherwise it is there already."""
    cluster_queue: DnsSubdomain | None = None
    """The ClusterQueue that it draws on."""

    @model_validator(mode="after")
    def _managed_needs_a_source(self) -> Self:
        if self.managed and self.cluster_queue is None:
            raise ValueError("add cluster_queue, or managed: false if the queue is there already")
        return self


class TopologyLevel(Model):
    """A set of nodes that are near to each other, such as a rack or an NVLink domain."""

    label: QualifiedName
    """Node label whose equal values mean the same place."""
