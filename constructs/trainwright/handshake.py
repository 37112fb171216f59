"""The handshake between a topology and a target.

A topology says what it *needs*; a target answers with a *binding* (where each rank lives and how it learns who it is) or with a
*refusal*. The topology then says what each role's process runs, from the binding alone. So topologies never name an operator and
targets never name a topology: both speak of rendezvous kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from trainwright.targets import TARGET_MODULES
from trainwright.units import Bytes, Cpu
from trainwright_trainer.contract.layout import RENDEZVOUS_PORT

if TYPE_CHECKING:
    OperatorName = str
    TargetName = str
else:
    OperatorName = Literal[tuple(dict.fromkeys(operator for _, operator in TARGET_MODULES.values() if operator))]
    """Every operator that a target can need, as profiles name it."""
    TargetName = Literal[tuple(TARGET_MODULES)]
    """Every target, as runs and cluster profiles name it."""

PartT = TypeVar("PartT")


class Rendezvous(Enum):
    """How ranks find each other."""

    STATIC = "static"
    """Rank 0's address is known beforehand and each rank's number follows from its pod's index."""
    C10D = "c10d"
    """An elastic store on one host; ranks are numbered as they come."""
    MPI_HOSTFILE = "mpi-hostfile"
    """A launcher reads where the slots are from a file and starts the ranks there over ssh."""
    TF_CONFIG = "tf-config"
    """Every pod is given the list of all, and its own place in it, in one variable."""
    DMLC_TRACKER = "dmlc-tracker"
    """Rank 0 runs a tracker, and every rank is given its address."""
    RAY_HEAD = "ray-head"
    """Workers join a Ray cluster, and a driver on it places the ranks."""
    JAX_COORDINATOR = "jax-coordinator"
    """Process 0 runs a coordinator, and every process is given its address, their number and its own."""
    NONE = "none"
    """Pods do not communicate: each has a number, and nobody waits for another."""


class Success(Enum):
    """When the run as a whole has succeeded."""

    ALL_RANKS = "all ranks end with 0"
    ANY_RANK = "one rank ends with 0"
    CHIEF = "the chief ends with 0"
    LAUNCHER = "the launcher ends with 0"


class EnvironmentChannel(Enum):
    """How a variable reaches the ranks."""

    POD = "the container's env"
    LAUNCHER = "the launcher's command line (mpirun -x)"


class Gang(Enum):
    """Who makes the group of pods that a gang scheduler starts together, or not at all."""

    OURS = "the run's own PodGroup"
    OPERATOR = "the operator, where its own flag for gangs is set"
    OBJECTS = "the controller, as the run's own objects say"
    LABEL = "the operator, where its own flag for gangs is set, by a label of the run"


class Guarantee(Enum):
    """What a pair of topology and target keeps; the plan lists them."""

    EXIT_CODES = "exit codes"
    SIGTERM_SAVE = "SIGTERM save"
    RESTART_ALL = "restart of all ranks together"
    IN_PLACE = "recovery in place"
    """Where the target lists it, and answers that the others can stay (:attr:`Recovery.takes_others`)."""
    EXACT_RESUME = "exact resume"
    RESHARD = "resume at another size"
    SCRIPT_RESUME = "resume from what the script committed"
    """What it loads of that is its own, so that nobody can promise that it resumes exactly."""
    SCRIPT_STEPS = "hangs and metrics by the script's steps"


class Elastic(NamedTuple):
    """Smallest and largest number of nodes of a run that may change while it runs, and how soon a change is noticed.

    The times are those of torch's c10d rendezvous (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py), in whole seconds:
    a lost node is noticed after ``keep_alive_seconds x keep_alive_attempts``, and training goes on ``last_call_seconds`` later.
    """

    minimum: int
    maximum: int
    keeps_batch: bool = True
    """Whether the effective batch is the same at every size; otherwise it follows the number of nodes."""
    last_call_seconds: int = 2
    keep_alive_seconds: int = 1
    keep_alive_attempts: int = 3
    metrics: tuple[Mapping[str, Any], ...] = ()
    """By which nodes are added and removed besides, as a HorizontalPodAutoscaler writes them."""


class Share(NamedTuple):
    """What a pod that holds no ranks takes of a node."""

    cpu: Cpu
    memory: Bytes
    reason: str


Start = Literal["first", "before", "with", "after"]
"""When pods start, seen from those that hold ranks: these wait until they have ended, or are ready, or the other way round, or
neither."""


MOST_FURTHER = 6
"""Further roles of a run."""


class Bounds(NamedTuple):
    """Fewest and most pods."""

    least: int
    most: int


class FurtherRole(NamedTuple):
    """Pods that a run has besides those of its topology, such as a data service or an evaluator. They hold no ranks."""

    name: str
    pods: int
    share: Share
    starts: Start = "with"
    must_end: bool = False
    """Whether the run is done only when they have ended with 0 too; otherwise they end with the pods that hold ranks."""


class Needs(NamedTuple):
    """What a run asks of a target: its topology, and the further roles that it states."""

    nodes: int
    processes_per_node: int
    gpus_per_node: int
    rendezvous: Rendezvous
    success: Success
    elastic: Elastic | None = None
    replicas_per_process: int = 1
    """Copies of the model that one process trains, such as TensorFlow's one a GPU."""
    further: tuple[FurtherRole, ...] = ()
    autoscaled: Mapping[str, Bounds] = {}
    """Role -> how many pods it may have, where an autoscaler decides while the run goes on."""
    runtime: str | None = None
    """An installed runtime that the run is to be on; only a target that says it too in its binding does that."""
    of_rendezvous: object = None
    """What only this kind of rendezvous has to know; its type is in the room of the kind (:meth:`part`)."""

    def part(self, kind: type[PartT]) -> PartT | None:
        """What is asked of one kind of rendezvous, such as ``MPI``; None where the ranks find each other in another way."""
        return self.of_rendezvous if isinstance(self.of_rendezvous, kind) else None

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return self.nodes * self.processes_per_node

    @property
    def talk(self) -> bool:
        """Whether pods talk to each other, and so have to be found, to start together and to come back together."""
        return self.rendezvous is not Rendezvous.NONE

    @property
    def most_nodes(self) -> int:
        """Nodes of the largest size that the run may have."""
        return self.elastic.maximum if self.elastic else self.nodes

    @property
    def most_ranks(self) -> int:
        """Ranks of that size."""
        return self.most_nodes * self.processes_per_node

    @property
    def spans_gpu_nodes(self) -> bool:
        """Whether GPUs of several nodes talk to each other."""
        return self.gpus_per_node > 0 and self.most_nodes > 1 and self.talk

    @property
    def replicas(self) -> int:
        """Micro batches that are computed at the same time."""
        return self.world_size * self.replicas_per_process


class Role(NamedTuple):
    """Pods that run the same thing."""

    name: str
    pods: int
    host: str
    """Host name of one pod with ``{name}`` (of the run's objects) and ``{index}``; resolvable by its peers."""
    container: str
    """Name of the container that trains; some operators prescribe it."""
    share: Share | None = None
    """Set for pods that hold no ranks, such as a launcher."""
    works: bool = False
    """Whether pods without ranks run what the run states too, as parameter servers do."""
    counted_in: str = "run:/topology/nodes"
    """Where the run states how many there are."""
    further: FurtherRole | None = None
    """What the run states of it, where it is none of its topology's."""
    index_field: str | None = None
    """Of a further role: field of a pod that holds its number among those of the role."""
    node_by: str | None = None
    """Of a pod without ranks: field of a run that makes it the first node."""

    @property
    def holds_ranks(self) -> bool:
        return self.share is None

    @property
    def gpus_field(self) -> str | None:
        """Field of a run that counts the GPUs of a pod; None where it has none."""
        if self.further:
            return f"roles.{self.name}.gpus"
        return "topology.gpus_per_node" if self.holds_ranks else None

    @property
    def gpus_fix(self) -> str:
        """What to write where somebody gives these pods GPUs by another way than that field."""
        if self.gpus_field:
            return f"change {self.gpus_field}"
        node = f"; or write {self.node_by}: true, and it is a node with topology.gpus_per_node GPUs" if self.node_by else ""
        return f"remove it{node}"


class Recovery(NamedTuple):
    """What the controller of a target makes of pods that end, fail or are evicted."""

    counts_init_failures: bool = True
    """Whether a pod whose init container fails counts against ``restarts``; otherwise it comes back forever."""
    counts_new_pods: bool = True
    """Whether a pod that is replaced for its exit code counts against ``restarts``; otherwise only the trainer's ledger does."""
    disruption_rule: bool = False
    """Whether a rule of the object says what the eviction of a pod does to the run."""
    may_end: bool = False
    """Without such a rule: whether pods stay away that fail or are evicted, where a run says so and has no restarts."""
    delays: Literal["none", "ignored", "all"] = "none"
    """Whether each eviction makes the next new pod wait twice as long: always, or where it is ignored (under the supervisor)."""
    returns: str = ""
    """What comes back after an eviction that delays nothing, and when, measured on real controllers; empty where unknown."""
    keeps_evicted: bool = False
    """Whether an evicted pod stays as it is, and nobody makes a new one until somebody deletes it."""
    takes_others: str = ""
    """Why the other pods cannot stay when one has ended; empty where it alone is replaced, under the supervisor."""
    first_ends: str = ""
    """What happens when the first pod ends with 0, where the run is not over with the last; the supervisor waits for all."""


class Binding(NamedTuple):
    """A target's answer: where ranks live and how they learn who they are."""

    roles: tuple[Role, ...]
    rank_zero_host: str
    """With ``{name}``."""
    rendezvous_port: int = RENDEZVOUS_PORT
    """Where a port is not the operator's to fix, the plan may choose another."""
    node_index_env: str | None = None
    """Variable that holds the pod's index; None where ranks are numbered by the launcher or the rendezvous."""
    index_field: str | None = None
    """Field of a pod that holds its index; None where there is none, or where only the operator's own variable has it."""
    fixed_port: bool = False
    """Whether the operator fixes the port of the rendezvous."""
    port_name: str = "rendezvous"
    """What the port of the rendezvous is called; some operators look for a name."""
    finds_container: bool = False
    """Whether the operator looks for the container that trains by its name."""
    injects: Mapping[str, str] = {}
    """Variables that the controller sets itself -> what they hold. A run may not set them."""
    renders: Mapping[str, str] = {}
    """Variables that the target renders from pod metadata -> field path."""
    environment: EnvironmentChannel = EnvironmentChannel.POD
    of_rendezvous: object = None
    """What only this kind of rendezvous brings; its type is in the room of the kind (:meth:`part`)."""
    replaces_command: bool = False
    """Whether the operator starts its own program in the pods, and the run's command elsewhere."""
    recovery: Recovery = Recovery()
    runtime: str | None = None
    """The installed runtime that the pods are of: what it says of them, the run does not."""
    peer_list: tuple[str, str] | None = None
    """Variable in which the operator names every pod, and what it writes for one, with ``{host}`` and ``{namespace}``."""
    reserved_roles: Mapping[str, str] = {}
    """Names that no further role can have, besides those of the other roles -> why."""
    gang: Gang = Gang.OURS
    guarantees: frozenset[Guarantee] = frozenset(Guarantee)
    generated_names: tuple[str, ...] = ()
    """The longest names that the controller derives, with ``{name}``: each must be a DNS label of at most 63 characters."""

    @property
    def ranks(self) -> Role:
        """The last role that holds ranks: the one with most pods, where the first node has a role of its own."""
        return [role for role in self.roles if role.holds_ranks][-1]

    def part(self, kind: type[PartT]) -> PartT | None:
        """What one kind of rendezvous brings, such as ``Mpirun``; None where the ranks find each other in another way."""
        return self.of_rendezvous if isinstance(self.of_rendezvous, kind) else None

    def hands_on(self, role: Role) -> bool:
        """Whether the pods of a role hand their environment on to the ranks."""
        return self.environment is EnvironmentChannel.LAUNCHER and role == self.roles[0]

    def runs_the_work(self, role: Role) -> bool:
        """Whether the pods of a role run what the run states: under mpirun the launcher does, and the others wait for it."""
        launched = self.environment is EnvironmentChannel.LAUNCHER
        return role == self.roles[0] if launched else role.holds_ranks or role.works


class Refusal(NamedTuple):
    """A target that cannot carry a topology, or the further roles beside it."""

    reason: str
    alternative: str
    roles: tuple[str, ...] = ()
    """Further roles of the run that it cannot carry; empty where it is the topology."""


class Variable(NamedTuple):
    """One environment variable with its reason."""

    name: str
    value: str
    reason: str
    source: str = "trainwright"
    """Where the value comes from: a pointer such as ``run:/env/X``, or ``trainwright``."""


class Port(NamedTuple):
    """What a container listens on."""

    name: str
    number: int
    reason: str
    source: str = "trainwright"


class Ports(NamedTuple):
    """Numbers of the ports of a run, by what they are for."""

    rendezvous: int
    control: int
    http: int
    ssh: int


class Process(NamedTuple):
    """What the main container of a role runs."""

    command: tuple[str, ...]
    """Empty where the operator starts its own, or the image's entrypoint is what runs."""
    args: tuple[str, ...] = ()
    handed_on: Mapping[str, str] = {}
    """Variables that a command of the run's own is told by ``env`` in front of it -> the operator's own with the same value."""
    ports: tuple[Port, ...] = ()
    supervised: bool = True
    """Whether our supervisor is PID 1, with probes, exit codes and metrics."""
    ready_port: str | None = None
    """Without the supervisor: the port that answers once the pod is of use to its peers; None where nothing can tell."""
    capabilities: Mapping[str, str] = {}
    """Linux capabilities that the program cannot start without -> why."""
    behind: tuple[str, ...] = ()
    """What starts a command of the run's own: our supervisor."""
