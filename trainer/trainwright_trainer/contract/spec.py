"""RunSpec v1: the one file that a supervisor reads, rendered by the compiler into a ConfigMap."""

from typing import Annotated, Final, Literal

from pydantic import Field

from trainwright_trainer.contract.base import Contract, Count, Port, Seconds
from trainwright_trainer.contract.training import Training

API_VERSION: Final = "trainer.trainwright.dev/v1"


class StaticRendezvous(Contract):
    """Rank 0 listens at a name known beforehand; every rank's number follows from its pod's index."""

    kind: Literal["static"] = "static"
    host: str = Field(min_length=1, max_length=253)
    port: Port


class World(Contract):
    """The processes of the run. Rank = node index x processes per node + local rank."""

    nodes: Count
    processes_per_node: Count
    device: Literal["cpu", "cuda"]
    node_index_env: str
    """Environment variable that holds this pod's node index."""
    rendezvous: StaticRendezvous
    control_port: Port
    """Where node 0's supervisor listens for the others."""

    @property
    def size(self) -> int:
        return self.nodes * self.processes_per_node


class Lifecycle(Contract):
    """Budgets that the supervisor keeps, in seconds."""

    grace_seconds: Seconds
    """From SIGTERM to SIGKILL; equals the pod's ``terminationGracePeriodSeconds``."""
    save_seconds: Seconds = 30
    """What a final save is expected to take."""
    peer_wait_seconds: Seconds = 1800
    """How long to wait for pods that are not there yet."""
    peer_lost_seconds: Seconds = 8
    """Silence after which a peer counts as lost."""
    attempts_without_progress: Count = 5
    """Attempts in a row without a newer checkpoint before the run ends with NO_PROGRESS."""


class Script(Contract):
    """The user's own program, one process per rank, with torch's environment (RANK, WORLD_SIZE, MASTER_ADDR, ...)."""

    kind: Literal["script"] = "script"
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    protocol: bool = False
    """Whether the program uses the exit codes of this contract; otherwise any failure is USER_FAILURE."""
    state_directory: str | None = None
    """Where the attempt ledger and the COMPLETE marker live, if anywhere."""


Work = Annotated[Training | Script, Field(discriminator="kind")]


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

    @property
    def state_directory(self) -> str | None:
        """Where checkpoints, ledger and COMPLETE marker live."""
        return self.work.checkpoints.directory if isinstance(self.work, Training) else self.work.state_directory
