"""The handshake between a topology and a target.

A topology says what it *needs*; a target answers with a *binding* (where each rank lives and how it learns who it is) or with a
*refusal*. The topology then says what each role's process runs, from the binding alone. So topologies never name an operator and
targets never name a topology: both speak of rendezvous kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

TargetName = Literal["indexed-job"]
"""Every target, as runs and cluster profiles name it; a test holds it against the registry, ``trainwright.target.TARGETS``."""


class Rendezvous(Enum):
    """How ranks find each other."""

    STATIC = "static"
    """Rank 0's address is known beforehand and each rank's number follows from its pod's index."""
    C10D = "c10d"
    """An elastic store on one host; ranks are numbered as they come."""
    MPI_HOSTFILE = "mpi-hostfile"
    TF_CONFIG = "tf-config"
    DMLC_TRACKER = "dmlc-tracker"
    RAY_HEAD = "ray-head"


class Success(Enum):
    """When the run as a whole has succeeded."""

    ALL_RANKS = "all ranks end with 0"
    CHIEF = "the chief ends with 0"
    LAUNCHER = "the launcher ends with 0"


class RestartUnit(Enum):
    """What has to start again when one rank fails."""

    ALL_RANKS = "all ranks"
    ONE_RANK = "the failed rank"


class EnvironmentChannel(Enum):
    """How a variable reaches the ranks."""

    POD = "the container's env"
    LAUNCHER = "the launcher's command line (mpirun -x)"


class Guarantee(Enum):
    """What a pair of topology and target keeps; the plan lists them."""

    EXIT_CODES = "exit codes"
    SIGTERM_SAVE = "SIGTERM save"
    RESTART_ALL = "restart of all ranks together"
    EXACT_RESUME = "exact resume"
    RESHARD = "resume at another size"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a topology asks of a target."""

    nodes: int
    processes_per_node: int
    gpus_per_node: int
    rendezvous: Rendezvous
    success: Success
    restart: RestartUnit
    elastic: tuple[int, int] | None = None
    """Smallest and largest number of nodes, where it may change while running."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.processes_per_node


@dataclass(frozen=True, slots=True)
class Role:
    """Pods that run the same thing."""

    name: str
    pods: int
    host: str
    """Host name of one pod with ``{name}`` (of the run's objects) and ``{index}``; resolvable by its peers."""
    container: str
    """Name of the container that trains; some operators prescribe it."""
    holds_ranks: bool = True
    """False for a launcher that only starts others."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A target's answer: where ranks live and how they learn who they are."""

    roles: tuple[Role, ...]
    rank_zero_host: str
    """With ``{name}``."""
    rendezvous_port: int
    node_index_env: str | None
    """Variable that holds the pod's index; None where ranks are numbered by the launcher or the rendezvous."""
    injects: Mapping[str, str] = field(default_factory=dict)
    """Variables that the controller sets itself -> what they hold. A run may not set them."""
    renders: Mapping[str, str] = field(default_factory=dict)
    """Variables that the target renders from pod metadata -> field path."""
    environment: EnvironmentChannel = EnvironmentChannel.POD
    guarantees: frozenset[Guarantee] = frozenset()
    generated_names: tuple[str, ...] = ()
    """The longest names that the controller derives, with ``{name}``: each must be a DNS label of at most 63 characters."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A target that cannot carry a topology."""

    reason: str
    alternative: str


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable with its reason."""

    name: str
    value: str
    reason: str
    source: str = "trainwright"
    """Where the value comes from: a pointer such as ``run:/env/X``, or ``trainwright``."""


@dataclass(frozen=True, slots=True)
class Process:
    """What the main container of a role runs."""

    command: tuple[str, ...]
    environment: tuple[Variable, ...] = ()
    supervised: bool = True
    """Whether our supervisor is PID 1, with probes, exit codes and metrics."""
