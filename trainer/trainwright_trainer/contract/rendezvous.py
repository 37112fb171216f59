"""How the processes of a run find each other: one model for each kind."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainwright_trainer.contract.base import AbsolutePath, Contract, Count, HostName, Index, Port, Variable


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
