"""Where a pod stands in its run: its node index, the address it listens on, its name for people, and whom it is linked with."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.layout import BIND_ENV
from trainwright_trainer.contract.spec import World
from trainwright_trainer.supervisor.refusal import Refusal

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a pod's network is its own


@dataclass(frozen=True, slots=True)
class Control:
    """Where the supervisors of pods that are linked meet."""

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
    control: Control | None = None
    """None where nothing links the supervisors: then each of them decides for its own pod alone."""

    @property
    def pods(self) -> int:
        """Pods that end, stop and save together, this one included."""
        return 1 if self.control is None else self.control.pods

    @property
    def leads(self) -> bool:
        """Whether this pod's supervisor decides for all pods that it is linked with."""
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

    Raises :class:`Refusal` with TOPOLOGY_MISMATCH where it is missing, no number, or not below ``world.nodes``.
    """
    meeting = world.meeting
    node = numbered_by(meeting.node_index_env, environ, world)
    return PodPlace(node, bind_address(environ), host_name(environ), Control(meeting.host, meeting.control_port, world.nodes))


def host_name(environ: Mapping[str, str]) -> str:
    """The pod's own name for itself, which container runtimes also put into HOSTNAME."""
    return environ.get("HOSTNAME") or socket.gethostname()


def bind_address(environ: Mapping[str, str]) -> str:
    """What this pod listens on: its own address, where the environment names it."""
    return environ.get(BIND_ENV) or EVERYWHERE


def numbered_by(name: str, environ: Mapping[str, str], world: World) -> int:
    """The pod's index, which the variable ``name`` holds. Raises :class:`Refusal` as :func:`pod_place` does."""
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


def mismatch(message: str) -> Refusal:
    """What is declared is not what this pod finds."""
    return Refusal(ExitCode.TOPOLOGY_MISMATCH, "TopologyMismatch", message)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
