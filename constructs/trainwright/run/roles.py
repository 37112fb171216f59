"""What the pods of one role have of their own, and roles that a run has besides those of its topology."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from trainwright.handshake import Start
from trainwright.model import DnsLabel, DnsSubdomain, EnvName, LabelValue, Model, QualifiedName
from trainwright.run.containers import PortNumber, Probe
from trainwright.run.life import ExitCodes, PortName
from trainwright.run.nodes import NodeAffinity, PodAffinity
from trainwright.run.resources import Resources
from trainwright.run.surroundings import ByPath, EnvValue, Mount, ResourceClaim
from trainwright.run.workload import Arguments, Command
from trainwright.security import Security
from trainwright_trainer.contract.base import AbsolutePath, ListOf, PlacedError

ONLY_FURTHER = ("gpus", "starts", "must_end", "exit_codes")
"""Fields that mean nothing where the target itself has the role."""

ALL = "all"
"""In place of a role: what the pods of every role have."""
OF_ALL = (
    "mounts", "node_affinity", "pod_affinity", "pod_anti_affinity", "runtime_class", "security", "resource_claims", "pod_labels",
    "pod_annotations",
)  # fmt: skip
"""Fields of a run that are said of the pods with ranks alone, and that each role has for its own pods."""


class RoleParts(Model):
    """What the pods of one role have of their own, beside what all pods of the run have. With `pods` it is a further role: pods
    beside those of the topology, such as a data service or an evaluator, which run a program of their own.
    """

    pods: Annotated[int, Field(strict=True, ge=1, le=256)] | None = None
    """Number of pods of a further role. Of a role that the target has, the topology says how many there are."""
    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Default: the image of the run."""
    container: DnsLabel | None = None
    """Name of the container that runs the role's program, for tools that go by it. Default: as the target calls it."""
    command: Command | None = None
    """What they run in place of what the plan has for them (workload `command`, and further roles)."""
    args: Arguments = ()
    """Arguments in place of the run's (workload `command`, and further roles)."""
    working_dir: AbsolutePath | None = None
    """Directory in which the program starts. Default: of the run's own pods that of the workload, of a further role that of its
    image.
    """
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Variables in addition to those of the run; the role's own value wins."""
    resources: Resources = Field(default_factory=Resources.model_construct)
    """What differs from the `resources` of the run; of pods without ranks, from what the plan gives them."""
    node_pool: DnsLabel | None = None
    """Pool of pods that hold no ranks. Default: that of the run; for a further role without GPUs the first pool without any."""
    gpus: Annotated[int, Field(strict=True, ge=0, le=16)] = 0
    """GPUs of each pod of a further role."""
    starts: Start = "with"
    """Of a further role: with `first` the pods that hold ranks wait until its pods have ended with 0, with `before` until they
    are ready; with `after` its pods wait until those are; with `with` nobody waits.
    """
    must_end: bool = False
    """Of a further role: whether the run is done only when its pods have ended with 0 too. Default: they end with the ranks."""
    exit_codes: ListOf[ExitCodes] = ()
    """Of a further role: what exit codes of its program mean. Those of the run are of its ranks."""
    ports: dict[PortName, PortNumber] = Field(default_factory=dict)
    """Ports that the program of the role listens on, beside those of the plan: name -> number."""
    ready: Probe | None = None
    """When a pod is ready that runs a `command` of its own. Default: in a further role once something listens on the first of
    `ports`, else as soon as it runs.
    """
    security: Security = Field(default_factory=Security.model_construct)
    """Who the processes are, and what they may do. What the run states of `capabilities` and `privileged` is for its ranks."""
    mounts: ByPath[Mount] = Field(default_factory=dict)
    """Path in the pods of the role -> a claim, scratch space, or another volume. `mounts` of the run are for ranks."""
    node_affinity: NodeAffinity | None = None
    """Nodes of the pool that the pods of the role may, or should, be on. That of the run is for ranks."""
    pod_affinity: PodAffinity | None = None
    """Pods that those of the role want to be near. That of the run is for ranks."""
    pod_anti_affinity: PodAffinity | None = None
    """Pods that those of the role want to be apart from. That of the run is for ranks."""
    runtime_class: DnsSubdomain | None = None
    """RuntimeClass of the pods of the role. That of the run is for pods with ranks or GPUs."""
    resource_claims: dict[DnsLabel, ResourceClaim] = Field(default_factory=dict)
    """Name -> devices that the pods of the role get by dynamic resource allocation. Those of the run are for ranks."""
    pod_labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels of the pods of the role. Those of the run are for ranks."""
    pod_annotations: dict[QualifiedName, Annotated[str, Field(max_length=65_536)]] = Field(default_factory=dict)
    """Annotations of the pods of the role. Those of the run are for ranks."""

    @model_validator(mode="after")
    def _only_of_a_further_role(self) -> Self:
        stated = [field for field in ONLY_FURTHER if field in self.model_fields_set]
        if self.pods is None and stated:
            message = f"{stated[0]} is for a further role, and this one has no pods; add pods, or remove {stated[0]}"
            raise PlacedError(message, stated[0])
        if self.pods is None and self.ready and not (self.command or self.args):
            raise PlacedError("ready is for a program of the role's own; add command, or write probes of the run", "ready")
        return self

    @property
    def is_further(self) -> bool:
        """Whether the run brings the role, and not the target."""
        return self.pods is not None
