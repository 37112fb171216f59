"""Where a pod stands in its run: its node index, the address it listens on, its name for people."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.layout import BIND_ENV
from trainwright_trainer.contract.spec import World
from trainwright_trainer.supervisor.refusal import Refusal

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a pod's network is its own


@dataclass(frozen=True, slots=True)
class PodPlace:
    node: int
    bind: str
    host: str

    @property
    def leads(self) -> bool:
        """Whether this pod's supervisor listens for the others and decides for the run."""
        return self.node == 0


def pod_place(environ: Mapping[str, str], world: World) -> PodPlace:
    """Read the pod's index from its environment.

    Raises :class:`Refusal` with TOPOLOGY_MISMATCH where it is missing, no number, or not below ``world.nodes``.
    """
    return PodPlace(_node_index(environ, world), environ.get(BIND_ENV) or EVERYWHERE, host_name(environ))


def host_name(environ: Mapping[str, str]) -> str:
    """The pod's own name for itself, which container runtimes also put into HOSTNAME."""
    return environ.get("HOSTNAME") or socket.gethostname()


def _node_index(environ: Mapping[str, str], world: World) -> int:
    name = world.meeting.node_index_env
    text = environ.get(name)
    if text is None:
        raise _mismatch(f"{name} is not set in this pod, and world.node_index_env says that it holds the pod's index")
    if not text.isascii() or not text.isdigit():
        raise _mismatch(f"{name} is {text!r} in this pod; it must be a number from 0 to {world.nodes - 1}")
    if int(text) >= world.nodes:
        raise _mismatch(
            f"{name} is {text} in this pod and world.nodes is {world.nodes}, so the index must be at most {world.nodes - 1}; "
            "make the job's completions equal to world.nodes"
        )
    return int(text)


def _mismatch(message: str) -> Refusal:
    return Refusal(ExitCode.TOPOLOGY_MISMATCH, "TopologyMismatch", message)
