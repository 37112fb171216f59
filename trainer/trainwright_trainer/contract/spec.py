"""RunSpec v1: the one file that a supervisor reads, rendered by the compiler into a ConfigMap.

How the processes of a run find each other is in it too, one model for each kind of rendezvous.
"""


from typing import Annotated, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import Field, JsonValue, model_validator

from trainwright_trainer.contract.base import (
    AbsolutePath,
    Contract,
    Count,
    HostName,
    Index,
    Port,
    Positive,
    Seconds,
    Specified,
    Variable,
)
from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.engine import ENGINE_RENDEZVOUS, torn_groups
from trainwright_trainer.contract.training import Training


class StaticRendezvous(Contract):
    """Rank 0 listens at a name known beforehand; every rank's number follows from its pod's index."""

    kind: Literal["static"] = "static"
    host: HostName
    port: Port


class ElasticRendezvous(Contract):
    """A store on one host at which torch's elastic agents meet; the number of nodes may change while the run trains.

    The settings are those of torch's ``c10d`` handler with its own defaults
    (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py); all times are whole seconds, because the handler reads integers.
    A node that vanishes is noticed after ``keep_alive_seconds x keep_alive_attempts``, and training goes on after
    ``last_call_seconds`` more.
    """

    kind: Literal["c10d"]
    host: HostName
    """Of the store. The pod with index 0 is the host where ``world.node_index_env`` is set, else the pod of this name."""
    port: Port
    min_nodes: Count
    max_nodes: Count
    last_call_seconds: Count = 30
    """How long those who came wait for others, once ``min_nodes`` are there (``last_call_timeout``)."""
    keep_alive_seconds: Count = 5
    """Between two signs of life (``keep_alive_interval``)."""
    keep_alive_attempts: Count = 3
    """Missed signs after which a node counts as gone (``keep_alive_max_attempt``)."""
    max_restarts: Index = 3
    """Times that an agent starts its ranks again after one of them failed; a change of nodes does not count."""

    @model_validator(mode="after")
    def _a_range(self) -> Self:
        if self.min_nodes > self.max_nodes:
            raise ValueError(f"min_nodes {self.min_nodes} is above max_nodes {self.max_nodes}")
        return self


class MPIRendezvous(Contract):
    """A launcher pod runs mpirun, which starts the ranks through ssh and numbers them from the hostfile.

    The launcher's container runs ``trainwright-trainer supervise -- mpirun ARGUMENTS``, and each worker's container
    ``trainwright-trainer supervise -- sshd ARGUMENTS``.
    """

    kind: Literal["mpi-hostfile"]
    role_env: Variable
    """Environment variable that holds ``launcher`` or ``worker``."""
    hostfile: AbsolutePath
    """Where the launcher finds the hosts and their slots."""
    host: HostName | None = None
    """Of rank 0, where torch.distributed meets. Horovod needs none: it meets over MPI itself."""
    port: Port | None = None
    """On which rank 0 listens there."""

    @model_validator(mode="after")
    def _host_and_port(self) -> Self:
        if (self.host is None) != (self.port is None):
            raise ValueError("give both of host and port, or neither")
        return self


class TFConfigRendezvous(Contract):
    """The operator lists every task's address in ``TF_CONFIG``, and names this pod's own task there."""

    kind: Literal["tf-config"]


class TrackerRendezvous(Contract):
    """Workers meet at a tracker that the pod with index 0 runs (XGBoost's ``RabitTracker``)."""

    kind: Literal["dmlc-tracker"]
    host: HostName
    port: Port


class RayRendezvous(Contract):
    """The program runs inside a Ray cluster, and Ray Train starts and numbers the ranks."""

    kind: Literal["ray-head"]


Rendezvous = Annotated[
    StaticRendezvous | ElasticRendezvous | MPIRendezvous | TFConfigRendezvous | TrackerRendezvous | RayRendezvous,
    Field(discriminator="kind"),
]


API_VERSION: Final = "trainer.trainwright.dev/v1"


class Meeting(NamedTuple):
    """Where the pods of a world whose node 0 is known beforehand find it."""

    host: str
    port: int
    """Of rank 0, or of the tracker."""
    control_port: int
    """Of node 0's supervisor."""
    node_index_env: str


class World(Contract):
    """The processes of the run. In a static world, rank = node index x processes per node + local rank."""

    nodes: Count
    """Nodes that hold ranks; of an elastic run, those that it starts with."""
    processes_per_node: Count
    replicas_per_process: Count | None = None
    """Devices that one process drives with a replica on each, as MultiWorkerMirrored does. Default: one."""
    device: Literal["cpu", "cuda"]
    node_index_env: Variable | None = None
    """Environment variable that holds this pod's node index; None where the rendezvous numbers ranks by itself."""
    rendezvous: Rendezvous
    control_port: Port | None = None
    """Where node 0's supervisor listens for the others; None where something else ties the pods to each other."""
    control_secret: AbsolutePath | None = None
    """File with the secret by which pods prove that they are of this run. None: they take each other at their word."""

    @model_validator(mode="after")
    def _rendezvous_has_what_it_needs(self) -> Self:
        kind = self.rendezvous.kind
        if kind in ("static", "dmlc-tracker") and self.node_index_env is None:
            raise ValueError(f"rendezvous {kind} needs node_index_env")
        if kind in ("static", "dmlc-tracker") and self.control_port is None:
            raise ValueError(f"rendezvous {kind} needs control_port")
        if isinstance(self.rendezvous, ElasticRendezvous):
            low, high = self.rendezvous.min_nodes, self.rendezvous.max_nodes
            if not low <= self.nodes <= high:
                raise ValueError(f"nodes {self.nodes} is not between rendezvous.min_nodes {low} and max_nodes {high}")
        return self

    @property
    def size(self) -> int:
        """Ranks: processes that train."""
        return self.nodes * self.processes_per_node

    @property
    def fewest_ranks(self) -> int:
        """Of the smallest size that the run may have."""
        nodes = self.rendezvous.min_nodes if isinstance(self.rendezvous, ElasticRendezvous) else self.nodes
        return nodes * self.processes_per_node

    @property
    def replicas(self) -> int:
        """Copies of the model that each see a micro batch of their own."""
        return self.size * (self.replicas_per_process or 1)

    @property
    def is_connected(self) -> bool:
        """Whether a node 0 that is known beforehand decides for all pods."""
        kind = self.rendezvous.kind
        alone = kind == "tf-config" and self.nodes == 1
        return alone or (kind in ("static", "dmlc-tracker", "tf-config") and self.control_port is not None)

    @property
    def meeting(self) -> Meeting:
        """Where the pods find node 0. Raises :class:`TypeError` unless the rendezvous is static or dmlc-tracker."""
        where, control_port, index = self.rendezvous, self.control_port, self.node_index_env
        if not isinstance(where, StaticRendezvous | TrackerRendezvous) or control_port is None or index is None:
            raise TypeError(f"rendezvous {where.kind} has no node 0 that is known beforehand")
        return Meeting(where.host, where.port, control_port, index)


class Watchdog(Specified):
    """When a rank counts as hung. The run then dumps all stacks and ends with 204, which is retried."""

    always: ClassVar = frozenset((
        "starting_seconds", "restoring_seconds", "warming_up_seconds", "training_seconds", "slowdown", "saving_seconds",
    ))

    starting_seconds: Seconds = 1800
    """Imports, the process group, preflight, data and model."""
    # A terabyte at 300 MB/s.
    restoring_seconds: Seconds = 3600
    """Verifying and reading a checkpoint."""
    warming_up_seconds: Seconds = 1800
    """The first batch, compilation included."""
    # Below the 300 s after which a collective gives up by itself.
    training_seconds: Seconds = 240
    """A step of training or a batch of evaluation, at least."""
    slowdown: Annotated[float, Field(gt=1, le=1e6)] = 10
    """The limit of a step is this many times the median of the latest steps, if that is more than `training`; likewise for
    saves.
    """
    saving_seconds: Seconds = 1200
    """A save, at least."""


MIN_SHARE_ON_GPUS = 0.8
"""GPUs of one model differ by a few percent. CPUs have no such default, since pods share machines there."""


class Preflight(Specified):
    """Checks of devices, network and volume at the start of each attempt. If a node fails one, its pod ends with 201.

    Wrong numbers always fail, and so does a GPU whose driver says that it is broken; a slow node fails where there is a
    threshold for it.
    """

    always: ClassVar = frozenset(("when", "budget_seconds"))

    when: Literal["on-gpus", "always", "never"] = "on-gpus"
    """Which runs are checked."""
    budget_seconds: Seconds = 60
    """A check that would begin later is skipped."""
    min_tflops: Positive | None = None
    """Slowest matrix product (bf16, on CPUs fp32), in 10^12 operations per second; wrong numbers always fail."""
    min_share_of_median: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Slowest rank's matrix product over the median of all ranks; by default 0.8 on GPUs, 0 compares nothing."""
    min_memory_gigabytes_per_second: Positive | None = None
    """Slowest copy in a device's memory, in 10^9 bytes per second, read and written."""
    min_bus_gigabytes_per_second: Positive | None = None
    """Slowest all-reduce over all ranks, as bus bandwidth of nccl-tests, in 10^9 bytes per second."""
    max_storage_seconds: Seconds | None = None
    """Longest time to write a file to the checkpoint volume durably, rename it and read it back."""
    max_clock_skew_seconds: Seconds | None = None
    """Largest difference between a node's clock and that of rank 0's node."""

    def least_share_of_median(self, device: str) -> float:
        """What a rank on this kind of device, ``cuda`` or ``cpu``, must reach; 0 where nothing is compared."""
        if self.min_share_of_median is not None:
            return self.min_share_of_median
        return MIN_SHARE_ON_GPUS if device == "cuda" else 0.0


class Recovery(Contract):
    """An attempt that fails is followed by another one in the same pods. Only a pod that is lost is replaced."""

    restarts: Index = 3
    """Attempts that may fail by themselves, since the run began, before its pods end with RETRIES_SPENT."""
    wait_seconds: Seconds = 900
    """How long the other pods wait for one that is lost. A Job's controller replaces a pod after at most 600 s."""


class Lifecycle(Contract):
    """Budgets that the supervisor keeps, in seconds."""

    grace_seconds: Seconds
    """From SIGTERM to SIGKILL; equals the pod's ``terminationGracePeriodSeconds``."""
    save_seconds: Seconds = 30
    """What a final save is expected to take."""
    peer_wait_seconds: Seconds = 1800
    """How long to wait for pods that are not there yet."""
    peer_lost_seconds: Seconds = 15
    """Silence after which a peer counts as lost. A pod that is frozen for 10 s, by its node or its disk, is none."""
    attempts_without_progress: Count = 5
    """Attempts in a row without a newer checkpoint before the run ends with NO_PROGRESS."""
    watchdog: Watchdog | None = None
    """When a rank counts as hung. Default: the defaults of its limits."""
    preflight: Preflight | None = None
    """What is checked before training. Default: the defaults of its settings."""
    recovery: Recovery | None = None
    """How the run goes on without new pods. Default: not at all, every pod ends with the attempt."""


class ScriptCheckpoints(Contract):
    """Of a script that saves by ``trainwright_trainer.run``, in its state directory."""

    keep: Annotated[int, Field(ge=2, le=1000)] = 3
    """Commits that stay."""
    resume: Literal["auto", "required", "never"] = "auto"


class Script(Contract):
    """The user's own program.

    A ``script`` is one process per rank, with torch's environment (RANK, WORLD_SIZE, MASTER_ADDR, ...). A ``command`` is one
    process per pod with the pod's environment, such as torchrun, which starts the ranks itself. Its words stand in the pod,
    behind ``trainwright-trainer supervise --``, where Kubernetes replaces variables as in any command.
    """

    kind: Literal["script", "command"] = "script"
    command: tuple[str, ...] = ()
    """Of a script; that of a command is in the pod."""
    protocol: bool = False
    """Whether the program uses the exit codes of this contract; otherwise any failure is USER_FAILURE."""
    state_directory: str | None = None
    """Where the attempt ledger and the COMPLETE marker live, if anywhere."""
    checkpoints: ScriptCheckpoints | None = None
    """Set where the program saves by ``trainwright_trainer.run``; what it saves by other means is its own."""
    config: dict[str, JsonValue] | None = None
    """What the run states for the program, which reads it by ``trainwright_trainer.run.config``."""

    @property
    def calls_us(self) -> bool:
        """Whether the program imports ``trainwright_trainer.run``, as far as the run says."""
        return self.checkpoints is not None or self.config is not None

    @model_validator(mode="after")
    def _says_what_runs(self) -> Self:
        if self.kind == "script" and not self.command:
            raise ValueError("a script needs command")
        if self.kind == "command" and (self.command or self.protocol or self.checkpoints or self.config is not None):
            raise ValueError("the pod has the words of a command, and its ranks no line to us: work has only state_directory")
        return self


Work = Annotated[Training | Boosting | Script, Field(discriminator="kind")]


class RunSpec(Contract):
    """Everything a pod of a run needs to know."""

    api_version: Literal["trainer.trainwright.dev/v1"] = API_VERSION
    run: str
    identity: str
    """Name of the run's objects: changes whenever a pod would."""
    world: World
    lifecycle: Lifecycle
    http_port: Port
    work: Work

    @model_validator(mode="after")
    def _work_fits_the_world(self) -> Self:
        problems = _of_training(self.work, self.world) if isinstance(self.work, Training) else []
        if isinstance(self.work, Boosting) and self.world.rendezvous.kind != "dmlc-tracker":
            problems = [f"work xgboost needs rendezvous dmlc-tracker instead of {self.world.rendezvous.kind}"]
        if self.lifecycle.recovery is not None and not self.world.is_connected:
            kind = self.world.rendezvous.kind
            problems.append(f"lifecycle.recovery needs supervisors that are connected, and those of rendezvous {kind} are not")
        for problem in problems:
            raise ValueError(problem)
        return self

    @property
    def state_directory(self) -> str | None:
        """Where checkpoints, ledger and COMPLETE marker live."""
        return self.work.state_directory if isinstance(self.work, Script) else self.work.checkpoints.directory


def _of_training(work: Training, world: World) -> list[str]:
    rendezvous, batch, problems = world.rendezvous, work.batch, list[str]()
    if rendezvous.kind not in (kinds := ENGINE_RENDEZVOUS[work.engine]):
        problems.append(f"engine {work.engine} cannot meet by rendezvous {rendezvous.kind}; use {' or '.join(kinds)}")
    elif isinstance(rendezvous, MPIRendezvous) and work.engine != "horovod" and rendezvous.host is None:
        problems.append(f"engine {work.engine} meets through torch: it needs world.rendezvous.host and port")
    if world.replicas_per_process is not None and work.engine != "tensorflow":
        problems.append(f"engine {work.engine} has one replica a process; remove world.replicas_per_process")
    if rendezvous.kind == "c10d" and batch.keep is None:
        problems.append("rendezvous c10d lets the number of nodes change: say in batch.keep what stays then")
    if rendezvous.kind != "c10d" and batch.keep is not None:
        problems.append(f"the number of nodes is fixed by rendezvous {rendezvous.kind}; remove batch.keep and batch.effective")
    if work.fsdp2 and work.fsdp2.shard_degree:
        moves = isinstance(rendezvous, ElasticRendezvous) and rendezvous.min_nodes < rendezvous.max_nodes
        torn = torn_groups(work.fsdp2.shard_degree, world.nodes, world.processes_per_node, nodes_move=moves)
        problems += [torn] if torn else []
    if batch.effective not in (None, samples := batch.samples(world.replicas)):
        problems.append(f"batch.effective is {batch.effective}, and micro x accumulation x replicas is {samples}")
    return problems
