"""Where a pod stands in its run: its node index, the address it listens on, its name, and which pods it is connected to.

Under an operator of TensorFlow's all of that is in ``TF_CONFIG``: the list of all tasks and this pod's own. The chief is node 0,
and worker i follows; without a chief worker 0 is it, as ``MultiWorkerMirroredStrategy`` has it
(tensorflow/python/distribute/multi_worker_util.py). The training operator sets the variable only where there is more than one pod
(kubeflow/training-operator, pkg/controller.v1/tensorflow/tensorflow.go).
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.layout import BIND_ENV
from trainwright_trainer.contract.spec import World

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a pod's network is its own
TF_CONFIG_ENV = "TF_CONFIG"
_ROLES = ("chief", "worker")


@dataclass(frozen=True, slots=True)
class ControlAddress:
    """Where the supervisors of pods that are connected meet."""

    host: str
    """Of node 0."""
    port: int
    pods: int
    """In all, node 0 included."""


@dataclass(frozen=True, slots=True)
class PodPlace:
    node: int | None
    """None where the pod has no number: it holds no ranks, or they are numbered while the run goes on."""
    bind: str
    host: str
    control: ControlAddress | None = None
    """None where nothing connects the supervisors: then each of them decides for its own pod alone."""

    @property
    def pods(self) -> int:
        """Pods that end, stop and save together, this one included."""
        return 1 if self.control is None else self.control.pods

    @property
    def leads(self) -> bool:
        """Whether this pod's supervisor decides for all pods that it is connected to."""
        return self.control is None or self.node == 0

    @property
    def control_host(self) -> str:
        """Of node 0's supervisor; this pod's own where it leads."""
        return self.host if self.control is None else self.control.host

    def is_called(self, name: str) -> bool:
        """Whether a name is this pod's own, with its domain or without it."""
        if name in (self.host, self.bind):
            return True
        return not _is_address(name) and name.partition(".")[0] == self.host.partition(".")[0]

    @property
    def short(self) -> str:
        """For a sentence that names ranks."""
        return self.host if self.node is None else f"node {self.node}"

    def __str__(self) -> str:
        return self.host if self.node is None else f"node {self.node} ({self.host})"


def pod_place(environ: Mapping[str, str], world: World) -> PodPlace:
    """Read the pod's index from its environment, in a world whose node 0 is known beforehand.

    Raises :class:`PodError` with TOPOLOGY_MISMATCH where it is missing, no number, or not below ``world.nodes``.
    """
    meeting = world.meeting
    node = numbered_by(meeting.node_index_env, environ, world)
    control = ControlAddress(meeting.host, meeting.control_port, world.nodes)
    return PodPlace(node, bind_address(environ), host_name(environ), control)


def host_name(environ: Mapping[str, str]) -> str:
    """The pod's own name for itself, which container runtimes also put into HOSTNAME."""
    return environ.get("HOSTNAME") or socket.gethostname()


def bind_address(environ: Mapping[str, str]) -> str:
    """What this pod listens on: its own address, where the environment names it."""
    return environ.get(BIND_ENV) or EVERYWHERE


def numbered_by(name: str, environ: Mapping[str, str], world: World) -> int:
    """The pod's index, which the variable ``name`` holds. Raises :class:`PodError` as :func:`pod_place` does."""
    text = environ.get(name)
    if text is None:
        raise mismatch(f"{name} is not set in this pod, and world.node_index_env says that it holds the pod's index")
    if not text.isascii() or not text.isdigit():
        raise mismatch(f"{name} is {text!r} in this pod; it must be a number from 0 to {world.nodes - 1}")
    if int(text) >= world.nodes:
        raise mismatch(
            f"{name} is {text} in this pod and world.nodes is {world.nodes}, so the index must be at most {world.nodes - 1}; "
            "make the job's completions equal to world.nodes"
        )
    return int(text)


def mismatch(message: str) -> PodError:
    """What is declared is not what this pod finds."""
    return PodError(ExitCode.TOPOLOGY_MISMATCH, "TopologyMismatch", message)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a run, by node index."""

    addresses: tuple[str, ...]
    """``host:port`` of each; empty for a run of one pod without the variable."""
    node: int

    @property
    def first(self) -> tuple[str, str]:
        """Host and port of node 0."""
        if not self.addresses:
            return "127.0.0.1", "0"
        host, _, port = self.addresses[0].rpartition(":")
        return host, port


def tasks(environ: Mapping[str, str], world: World) -> Tasks:
    """Read and check ``TF_CONFIG``.

    Raises :class:`PodError` with TOPOLOGY_MISMATCH where it is missing from a run of several pods, cannot be read, lists other
    tasks than ``world.nodes``, or has tasks that do not train: a parameter server, or an evaluator, for which the others would
    wait (tensorflow#46169).
    """
    text = environ.get(TF_CONFIG_ENV)
    if not text:
        if world.nodes == 1:
            return Tasks((), 0)
        raise mismatch(
            f"{TF_CONFIG_ENV} is not set in this pod and world.nodes is {world.nodes}; an operator such as TFJob's sets it"
        )
    cluster, kind, index = _read(text)
    if others := sorted(role for role in cluster if role not in _ROLES and cluster[role]):
        raise mismatch(
            f"{TF_CONFIG_ENV} lists {' and '.join(others)}, and MultiWorkerMirroredStrategy knows chief and worker alone; "
            "remove those replicas from the job"
        )
    by_role = {role: _addresses(role, cluster.get(role, [])) for role in _ROLES}
    addresses = tuple(address for role in _ROLES for address in by_role[role])
    if len(addresses) != world.nodes:
        raise mismatch(
            f"{TF_CONFIG_ENV} lists {len(addresses)} tasks and world.nodes is {world.nodes}; "
            "make the job's replicas agree with it"
        )
    if kind not in _ROLES or not 0 <= index < len(by_role[kind]):
        raise mismatch(f"{TF_CONFIG_ENV} says that this pod is {kind} {index}, which is not in its own list of tasks")
    return Tasks(addresses, index + (len(by_role["chief"]) if kind == "worker" else 0))


def tf_place(environ: Mapping[str, str], world: World) -> PodPlace:
    """Where this pod stands by its ``TF_CONFIG``. Raises as :func:`tasks` does."""
    found = tasks(environ, world)
    control = None
    if world.control_port is not None and world.nodes > 1:
        control = ControlAddress(found.first[0], world.control_port, world.nodes)
    return PodPlace(found.node, bind_address(environ), host_name(environ), control)


def _read(text: str) -> tuple[dict[str, Any], str, int]:
    try:
        document = json.loads(text)
        cluster, task = dict(document["cluster"]), document["task"]
        return cluster, str(task["type"]), int(task["index"])
    except (ValueError, TypeError, KeyError) as error:
        raise mismatch(
            f"{TF_CONFIG_ENV} cannot be read ({type(error).__name__}: {error}); it must be JSON with cluster and task, "
            "as TensorFlow documents it"
        ) from None


def _addresses(role: str, listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list):
        raise mismatch(
            f"{TF_CONFIG_ENV} lists the {role} tasks as {type(listed).__name__} and not as a list; "
            "remove enableDynamicWorker from the job: every worker must know all others"
        )
    return tuple(map(str, listed))
