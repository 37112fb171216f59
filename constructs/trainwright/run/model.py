"""The run: what an ML engineer asks for, in training terms."""

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, JsonValue, Tag, model_validator

from trainwright.handshake import MOST_FURTHER, TargetName
from trainwright.model import DnsLabel, DnsSubdomain, EnvName, LabelValue, Model, QualifiedName
from trainwright.run.containers import AnyContainer, PortNumber
from trainwright.run.initializer import Initializers
from trainwright.run.life import DEFAULT_GRACE_SECONDS, ONLY_UNKNOWN, ExitCodes, PortName, PreStop, Probes
from trainwright.run.lifecycle import Preflight, Watchdog
from trainwright.run.nodes import NodeAffinity, PodAffinity
from trainwright.run.preparation import Preparation
from trainwright.run.resources import Resources
from trainwright.run.roles import ALL, OF_ALL, RoleParts
from trainwright.run.surroundings import ByPath, EnvSource, EnvValue, FileMode, Mount, ResourceClaim
from trainwright.run.workload import CommandWorkload, ScriptWorkload, Trained, TrainerWorkload, Workload, with_brought
from trainwright.security import Security
from trainwright.topology import AnyTopology
from trainwright.units import Duration
from trainwright_trainer.contract.base import ListOf, MountPath, PlacedError
from trainwright_trainer.contract.engine import EngineName, unread
from trainwright_trainer.contract.training import Batch, CheckpointSettings, Scaling
from trainwright_trainer.contract.versions import KNOWN_VERSIONS

LineageName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=40, examples=["first-try"])
]
"""Of a directory in the run's own; a hash of the run's is one too, so that a directory can be kept by its name."""

LINEAGE_OF_MODEL = ("trainer", "boosting")
"""Kinds of workload that our trainer runs: it saves, and the lineage follows from model and data."""

Saver = Literal["trainer", "script", "own", "unknown"]
"""Who saves: our trainer, a script through our library, the run's own program by itself, or nobody says who; then nothing is
known of what a restart costs."""


RunName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=40)]
"""A DNS-1035 label that leaves room for the hash and for the names that operators derive."""

ObjectStore = Annotated[
    str, Field(pattern=r"^s3://[a-z0-9][-a-z0-9.]{1,61}[a-z0-9](/[A-Za-z0-9_@+=-][-A-Za-z0-9_.@+=]*)*$", max_length=512,
               examples=["s3://bucket/prefix"])
]
"""A bucket, and a prefix in it."""

Rate = Annotated[float, Field(gt=0, le=1e6)]


class LearningRate(Model):
    """A base rate, and how it follows the effective batch."""

    base: Rate
    """The rate before scaling."""
    base_batch: Annotated[int, Field(ge=1, le=2**40)] | None = None
    """Effective batch that the base rate was tuned for."""
    scaling: Scaling = "none"
    """How the rate follows the effective batch."""
    warmup_steps: Annotated[int, Field(ge=0, le=2**40)] = 0
    """Optimizer steps from 0 to the peak rate."""

    @model_validator(mode="after")
    def _scaling_needs_a_base(self) -> Self:
        if self.scaling != "none" and self.base_batch is None:
            raise PlacedError(f"scaling {self.scaling} needs base_batch, the effective batch that base was tuned for", "scaling")
        return self


class Checkpoints(CheckpointSettings):
    """Who saves, how often, and where."""

    before: ClassVar = {"every_steps": ("by", "mount", "store", "lineage", "every")}

    by: Literal["trainer", "script", "own"] | None = None
    """Who saves: `trainer` is ours, `script` a script that saves by `trainwright_trainer.run`, and `own` a script or command that
    saves into `mount` or `store` by itself. Default: our trainer where it runs; of a script or command nothing is known then, and
    no plan, review or alert claims anything.
    """
    mount: MountPath = "/checkpoints"
    """Mount path of the checkpoint claim."""
    store: ObjectStore | None = None
    """An object store instead of a claim, `s3://bucket/prefix`, on S3 or a store with its protocol. Region, endpoint and keys
    come from `env`, or from the role of `service_account`.
    """
    lineage: LineageName | None = None
    """For a script or a command: name of the run's checkpoint directory, which then stays over edits of image and code. Default:
    each identity its own. Lineages of the trainer follow from model, optimizer and data.
    """
    every: Duration | None = None
    """Time between checkpoints; default 30m if `every_steps` is not set."""
    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.store is not None and "mount" in self.model_fields_set:
            raise PlacedError("checkpoints go to a claim (mount) or to an object store (store); remove one of the two", "store")
        return self

    @property
    def root(self) -> str:
        """What the directories of all lineages lie in."""
        return self.store or self.mount


FileContent = Annotated[
    Annotated[str, Field(max_length=524_288), Tag("text")] | Annotated[dict[str, JsonValue], Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict) else "text"),
]


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is there twice, which the API server refuses; remove one of the two")
    return names


def _is_in(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)


class Placement(Model):
    """Where the pods of a run are in relation to each other."""

    together: DnsLabel | None = None
    """A topology level of the cluster profile, such as `rack`: all pods that hold ranks run in one place of that level."""
    required: bool = False
    """Whether pods wait rather than be apart."""
    one_per_node: bool = False
    """Put no two pods that hold ranks on one node, even if several would fit."""


class ObjectOverride(Model):
    """A merge patch on one object, pinned to the target that emits it."""

    target: TargetName
    """The target that emits the object."""
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z]*$", max_length=63)]
    """Kind of the object."""
    patch: dict[str, JsonValue]
    """A merge patch; lists of named things merge by name."""


class Overrides(Model):
    """The escape hatch: Kubernetes fields that no key of the run covers."""

    pod: dict[DnsLabel, dict[str, JsonValue]] = Field(default_factory=dict)
    """Role -> patch of its pod template's ``spec`` (lists merge by name)."""
    objects: ListOf[ObjectOverride] = ()
    """Patches on whole objects."""


class Waiver(Model):
    """A finding that the team accepts until a certain day."""

    code: Annotated[str, Field(pattern=r"^TW[0-9]{3}$", examples=["TW305"])]
    """Code of the finding, such as TW203."""
    reason: Annotated[str, Field(min_length=10, max_length=500)]
    """Shown in every review."""
    expires: date
    """The last day on which it holds."""


class Run(Model):
    """One training run."""

    run: RunName
    """Name of the run, and of its file."""
    team: DnsLabel
    """Who owns it: a label."""
    namespace: DnsLabel
    """A namespace of the cluster profile."""
    cluster: DnsLabel
    """A cluster profile in charts/clusters."""
    image: Annotated[str, Field(min_length=1, max_length=1024)]
    """The container image, pinned by digest."""
    trainer_version: Annotated[
        str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", examples=[KNOWN_VERSIONS[-1]])
    ] = KNOWN_VERSIONS[-1]
    """Version of trainwright-trainer inside the image (trainer and script workloads)."""
    supervisor: Literal["image", "brought", "none"] | None = None
    """Where the supervisor of a script is: in its `image`, or `brought` along by the pods, which need nothing in the image then.
    Default: brought, where the profile names the image to bring it from and does not know that the run's own has it. A command
    has `none` unless it asks for one of the two.
    """
    topology: AnyTopology
    """The processes of the run, and what they need."""
    workload: Workload
    """What the processes do."""
    batch: Batch | None = None
    """Samples per step (trainer workload)."""
    learning_rate: LearningRate | None = None
    """The learning rate (trainer workload)."""
    checkpoints: Checkpoints = Field(default_factory=Checkpoints.model_construct)
    """How often to save, where, and how many checkpoints to keep."""
    target: TargetName | None = None
    """The target that carries the run; default: the cluster's."""
    runtime: DnsSubdomain | None = None
    """One of the profile's `runtimes` for a TrainJob, which then says of its pods only what it may; default: the run brings its
    own.
    """
    initializer: Initializers | None = None
    """What the `runtime` fetches for this run before its pods start, where it has initializers; `prepare` fetches for any run."""
    node_pool: DnsLabel | None = None
    """Default: the first pool of the cluster that fits."""
    mounts: ByPath[Mount] = Field(default_factory=dict)
    """Path in the pods that hold ranks -> a claim, scratch space, or another volume."""
    prepare: ByPath[Preparation] = Field(default_factory=dict)
    """Path on a mounted claim -> data that is fetched once, before the first pod starts."""
    files: ByPath[FileContent] = Field(default_factory=dict)
    """Path in the pod -> a short text, or keys and values that are written as JSON."""
    file_modes: ByPath[FileMode] = Field(default_factory=dict)
    """One of `files` -> its permissions, as `"0555"` for a script that is started by its name. Default: 0644."""
    file_folders: ListOf[MountPath] = ()
    """Folders with those of `files` that are in them and nothing of the image, in all pods. Default: beside the image's own."""
    host_network: bool = False
    """Use the node's network; the run gets ports of its own."""
    placement: Placement = Field(default_factory=Placement.model_construct)
    """Where the pods run in relation to each other."""
    node_affinity: NodeAffinity | None = None
    """Nodes of the pool that the pods which hold ranks may, or should, be on."""
    pod_affinity: PodAffinity | None = None
    """Pods that those which hold ranks want to be near, or would like to be."""
    pod_anti_affinity: PodAffinity | None = None
    """Pods that those which hold ranks want to be apart from, or would like to be."""
    scheduling_gates: Annotated[ListOf[QualifiedName], AfterValidator(_each_once)] = ()
    """Gates that keep the pods from being scheduled until a controller of yours lifts them."""
    runtime_class: DnsSubdomain | None = None
    """RuntimeClass of the pods that hold ranks; default: the node's own runtime."""
    queue: DnsSubdomain | None = None
    """The queue of the namespace that admits the run."""
    priority: DnsSubdomain | None = None
    """PriorityClass of the pods."""
    gang: bool = True
    """Whether all pods start together or not at all, if the cluster has a gang scheduler."""
    resources: Resources = Field(default_factory=Resources.model_construct)
    """Of one pod that holds ranks; requests equal limits, unless they are stated apart."""
    roles: dict[DnsLabel, RoleParts] = Field(default_factory=dict)
    """Role of the target, such as `launcher` -> what its pods have of their own; with `pods` a further role, as `evaluator`.
    `all` says what the pods of every role have.
    """
    containers: ListOf[AnyContainer] = ()
    """Containers next to the one that trains: those that end before it, sidecars, and others beside it."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Variable -> text, a key of a Secret or ConfigMap, or a field of the pod."""
    env_from: ListOf[EnvSource] = ()
    """Whole Secrets and ConfigMaps whose keys become variables. What `env` and the plan set wins over them."""
    security: Security = Field(default_factory=Security.model_construct)
    """Who the processes are, and what they may do; the namespace's level decides what is allowed."""
    resource_claims: dict[DnsLabel, ResourceClaim] = Field(default_factory=dict)
    """Name -> devices that pods with ranks get by dynamic resource allocation, beside those of the pool."""
    service_account: DnsSubdomain | None = None
    """Service account of the pods; if set, its token is mounted too."""
    image_pull_secrets: Annotated[ListOf[DnsSubdomain], AfterValidator(_each_once)] = ()
    """Secrets for pulling the image."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """Default: Kubernetes' own, which is `Always` for tag `latest` or none, and otherwise `IfNotPresent`."""
    labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels of the objects only: editing one restarts nothing."""
    annotations: dict[QualifiedName, Annotated[str, Field(max_length=65_536)]] = Field(default_factory=dict)
    """Annotations of the object that carries the run: editing one restarts nothing."""
    pod_labels: dict[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels of the pods that hold ranks: editing one makes a new run."""
    pod_annotations: dict[QualifiedName, Annotated[str, Field(max_length=65_536)]] = Field(default_factory=dict)
    """Annotations of the pods that hold ranks, such as a cloud's networks: editing one makes a new run."""
    restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """How many failures may count before the run fails. In place: attempts that fail inside the pods, all together, and besides
    for each index the pods that end by themselves, where a Job makes them. Else: for each index on an Indexed Job, for the whole
    run elsewhere."""
    on_disruption: Literal["restart", "fail"] = "restart"
    """What the eviction or loss of a pod does: its pods come back, and `restarts` does not count it, or the run fails."""
    exit_codes: ListOf[ExitCodes] = ()
    """What exit codes of a command mean, where they mean more than a failure."""
    peer_wait: Duration = Field(default_factory=lambda: Duration.parse("30m"))
    """How long pods wait for pods that are not scheduled yet."""
    peer_lost: Duration = Field(default_factory=lambda: Duration.parse("15s"))
    """How long a pod may be silent before the others end and come back together, where their supervisors are connected."""
    recovery: Literal["in-place", "whole-job"] | None = None
    """What becomes of the other pods when a rank or a pod is lost: they stay, and go on with the next attempt, or all end and
    come back together. Default: `in-place` where the target replaces one pod alone and nobody evicts those that wait.
    """
    recovery_wait: Duration = Field(default_factory=lambda: Duration.parse("15m"))
    """How long pods that are left wait for one that is lost, in place."""
    node_lost: Duration | None = None
    """How long a node may be not ready or unreachable before its pods are evicted; default: the profile's. An override can only
    shorten it, since the shortest toleration counts."""
    grace: Duration | None = None
    """Time from SIGTERM to SIGKILL for a script or a command; default 60s. That of the trainer follows from its checkpoints."""
    probes: Probes | None = None
    """What tells whether a command is well."""
    pre_stop: PreStop | None = None
    """What happens in the pods of a script or a command before SIGTERM."""
    ports: dict[PortName, PortNumber] = Field(default_factory=dict)
    """Further ports that a script or a command listens on: name -> number."""
    deadline: Duration | None = None
    """How long a script or a command may run before it has failed; on a JobSet or a RayJob, each of its attempts."""
    ttl: Duration | None = None
    """How long the object of a script or a command stays when it has ended. Argo CD then recreates it, and the run restarts."""
    watchdog: Watchdog = Field(default_factory=Watchdog.model_construct)
    """When a rank counts as hung (our trainer only)."""
    preflight: Preflight = Field(default_factory=Preflight.model_construct)
    """Checks that nodes must pass before training begins (our trainer only)."""
    attempt: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Raise it to run the same thing again."""
    state: Literal["active", "paused", "done"] = "active"
    """A run that is `paused` or `done` leaves `dist/`: its job is removed, and stopped if it still runs. Checkpoints and record
    stay. What is paused keeps what it needs of the foundation too, and goes on as `active`; what is done has ended.
    """
    overrides: Overrides = Field(default_factory=Overrides.model_construct)
    """The escape hatch; always shown in the review."""
    waivers: ListOf[Waiver] = ()
    """Findings that the team accepts until a certain day."""

    # What the work brings becomes files. A validator of mode before would make JSON that is read strictly Python, in which a
    # list is no tuple.
    if not TYPE_CHECKING:

        def __init__(self, **data: Any) -> None:
            super().__init__(**with_brought(data))

        __init__.__pydantic_base_init__ = True  # pydantic's own validation need not come by here

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        if isinstance(obj, Run) and getattr(getattr(obj, "workload", None), "brings", None):
            obj = {name: getattr(obj, name) for name in obj.model_fields_set}
        return super().model_validate(with_brought(obj) if isinstance(obj, Mapping) else obj, **options)

    @model_validator(mode="after")
    def _modes_are_of_files(self) -> Self:
        if unknown := next((path for path in self.file_modes if path not in self.files), None):
            message = f"file_modes has {unknown}, which is not among files; write the file there, or remove its mode"
            raise PlacedError(message, "file_modes", unknown)
        return self

    @model_validator(mode="after")
    def _folders_hold_files(self) -> Self:
        for number, folder in enumerate(self.file_folders):
            if not any(_is_in(path, folder) for path in self.files if path != folder):
                message = f"none of files is in {folder}; write one there, or remove the folder"
                raise PlacedError(message, "file_folders", number)
            if other := next((one for one in self.file_folders[:number] if _is_in(folder, one) or _is_in(one, folder)), None):
                message = f"{folder} and {other} are one folder, or one is in the other; keep the outer one"
                raise PlacedError(message, "file_folders", number)
        return self

    @model_validator(mode="after")
    def _initializers_are_of_a_runtime(self) -> Self:
        if self.initializer and self.runtime is None:
            message = "a runtime that the run brings has no initializers; write prepare, or the runtime that has them"
            raise PlacedError(message, "initializer")
        return self

    @model_validator(mode="after")
    def _grace_is_its_own(self) -> Self:
        if self.grace is not None and self.workload.kind in ("trainer", "boosting"):
            raise PlacedError(f"workload {self.workload.kind} has its grace from checkpoints; remove grace", "grace")
        return self

    @model_validator(mode="after")
    def _lineage_is_its_own(self) -> Self:
        """The trainer loads what it finds, so a name over an edit of the model would promise what the files cannot keep."""
        lineage, kind = self.checkpoints.lineage, self.workload.kind
        if lineage and kind in LINEAGE_OF_MODEL:
            raise PlacedError(f"workload {kind} has its lineage from model and data, so that it never loads another model's "
                            "checkpoint; remove checkpoints.lineage", "checkpoints", "lineage")  # fmt: skip
        return self

    @model_validator(mode="after")
    def _saves_as_it_can(self) -> Self:
        by, kind = self.checkpoints.by, self.workload.kind
        if by == "script" and kind == "command":
            message = ("a command has no supervisor that could commit what it saves; make it workload script, or write own if "
                       f"the program saves into {self.checkpoints.root} by itself")  # fmt: skip
            raise PlacedError(message, "checkpoints", "by")
        if by == "script" and self.checkpoints.store:
            message = "trainwright_trainer.run saves into a claim; name one in mounts, or write own and let the script save there"
            raise PlacedError(message, "checkpoints", "store")
        if by == "script" and getattr(self.topology, "elastic", None):
            message = "nothing connects the pods of an elastic run, so they cannot commit together; write own, or fix nodes"
            raise PlacedError(message, "checkpoints", "by")
        if by in ("own", "script") and kind in LINEAGE_OF_MODEL:
            raise PlacedError(f"our trainer saves what workload {kind} trains; remove checkpoints.by", "checkpoints", "by")
        if by == "trainer" and kind not in LINEAGE_OF_MODEL:
            message = (f"our trainer does not run a {kind}, and saves nothing of it; write own if the program saves into "
                       f"{self.checkpoints.root} by itself, else remove it")  # fmt: skip
            raise PlacedError(message, "checkpoints", "by")
        return self

    @model_validator(mode="after")
    def _supervisor_fits_the_work(self) -> Self:
        kind, stated = self.workload.kind, self.supervisor
        if stated == "none" and kind != "command":
            rather = "write kind: command, which nobody supervises" if kind == "script" else "remove supervisor"
            raise PlacedError(f"workload {kind} is what the supervisor runs; {rather}", "supervisor")
        if stated == "brought" and kind in LINEAGE_OF_MODEL:
            message = f"workload {kind} is our trainer, which is in the image with its supervisor; remove supervisor"
            raise PlacedError(message, "supervisor")
        if isinstance(self.workload, CommandWorkload) and self.supervised and self.workload.command is None:
            message = "a supervisor has to name what it starts, and only the image knows its entrypoint; write command"
            raise PlacedError(message, "supervisor")
        return self

    @property
    def supervised(self) -> bool:
        """Whether our supervisor starts the work: always, but for a command that does not ask for it."""
        return self.workload.kind != "command" or self.supervisor in ("image", "brought")

    @model_validator(mode="after")
    def _life_is_its_own(self) -> Self:
        """Of a program that nobody here knows; what the supervisor says of a script is the supervisor's."""
        kind = self.workload.kind
        for field in ONLY_UNKNOWN:
            if getattr(self, field) and kind in ("trainer", "boosting"):
                message = f"{field} is for a script or a command, and workload {kind} has what it needs; remove {field}"
                raise PlacedError(message, field)
        if self.exit_codes and self.supervised:
            message = f"the supervisor of a {kind} gives each exit code its meaning; remove exit_codes"
            raise PlacedError(message, "exit_codes")
        if self.probes and self.supervised:
            message = f"a {kind} has the probes of its supervisor, which takes a kill for an eviction; remove probes"
            raise PlacedError(message, "probes")
        grace = self.grace.seconds if self.grace else DEFAULT_GRACE_SECONDS
        if self.pre_stop and self.pre_stop.sleep and self.pre_stop.sleep.seconds >= grace:
            message = f"pre_stop sleeps {self.pre_stop.sleep} of a grace of {grace}s, which leaves none; raise grace"
            raise PlacedError(message, "pre_stop", "sleep")
        return self

    @model_validator(mode="after")
    def _only_a_command_has_several(self) -> Self:
        for role, parts in self.roles.items():
            if (parts.command or parts.args) and self.workload.kind != "command" and not parts.is_further:
                key = "command" if parts.command else "args"
                message = (f"roles.{role} states what runs, and workload {self.workload.kind} is started by the supervisor "
                           "in every pod; remove command and args there, or use workload command")  # fmt: skip
                raise PlacedError(message, "roles", role, key)
        return self

    @model_validator(mode="after")
    def _all_has_what_pods_have(self) -> Self:
        stated = self.roles[ALL].model_fields_set if ALL in self.roles else ()
        if other := next((field for field in RoleParts.model_fields if field in stated and field not in OF_ALL), None):
            message = f"roles.{ALL} is what the pods of every role have: {', '.join(OF_ALL)}; write {other} under one role"
            raise PlacedError(message, "roles", ALL, other)
        return self

    @model_validator(mode="after")
    def _further_roles_are_few(self) -> Self:
        number = sum(parts.is_further for parts in self.roles.values())
        if number > MOST_FURTHER:
            message = f"there are {number} further roles, and a run has {MOST_FURTHER} at most; make some of them runs"
            raise PlacedError(message, "roles")
        return self

    @model_validator(mode="after")
    def _containers_differ(self) -> Self:
        names = [container.name for container in self.containers]
        if twice := [name for name in names if name and names.count(name) > 1]:
            second = len(names) - 1 - names[::-1].index(twice[0])
            raise PlacedError(f"two containers are called {twice[0]}; give each a name of its own", "containers", second)
        return self

    @property
    def rank_mounts(self) -> dict[MountPath, Mount]:
        """What is mounted in the pods that hold ranks, whichever roles of a target these are."""
        return {**self.roles[ALL].mounts, **self.mounts} if ALL in self.roles else self.mounts

    @property
    def saved_by(self) -> Saver:
        """Who saves what it trains: the one answer, by which plan, review and alerts speak."""
        return "trainer" if self.workload.kind in LINEAGE_OF_MODEL else self.checkpoints.by or "unknown"

    @property
    def needs_checkpoints(self) -> bool:
        """Whether there must be a place for checkpoints: somebody saves there, or the run names one."""
        return self.saved_by != "unknown" or not self.checkpoints.model_fields_set.isdisjoint({"mount", "lineage"})

    @property
    def resume_from(self) -> str | None:
        """The directory that a script or command starts from."""
        return self.workload.resume_from if isinstance(self.workload, ScriptWorkload | CommandWorkload) else None

    @property
    def trainer(self) -> TrainerWorkload | None:
        """The workload, where our trainer runs it."""
        return self.workload if isinstance(self.workload, TrainerWorkload) else None

    @property
    def trained(self) -> Trained | None:
        """What is trained, where it is known: by our trainer, or as a script states it."""
        return self.workload.training if isinstance(self.workload, ScriptWorkload) else self.trainer

    def unread_by(self, engine: EngineName | None) -> Iterator[tuple[str, str]]:
        """Settings of our trainer that an engine of it does not read, and what to write instead."""
        if self.trainer and engine:
            asked = SimpleNamespace(**dict(self.trainer), checkpoints=self.checkpoints)  # the contract has both in one
            yield from unread(engine, asked)
