"""TF_CONFIG: one variable tells every pod of TensorFlow who all of them are. The roles, and what their pods take of a node."""

from __future__ import annotations

from typing import NamedTuple

from trainwright.handshake import Needs, Role, Share
from trainwright.units import GIB, Bytes, Cpu

PORT = 2222
"""What TensorFlow's servers listen on by the default of the Training Operator and of Volcano's plugin."""

CONTAINER = "tensorflow"
EVALUATOR = "evaluator"
"""The further role that TensorFlow knows."""
SERVER_SHARE = Share(Cpu(4000), Bytes(16 * GIB), "variables and the optimizer's state, of a model that nobody knows here")
COORDINATOR_SHARE = Share(Cpu(4000), Bytes(16 * GIB), "it directs the workers, and holds no variables")


class Tasks(NamedTuple):
    """What a topology asks: which tasks there are besides the workers."""

    chief: bool = False
    """Whether the first node is a role of its own, where the target leaves the choice. Beside parameter servers it is no node: it
    holds no ranks."""
    parameter_servers: int = 0
    """Pods that hold variables for the ranks, and no ranks."""

    def roles(self, needs: Needs, domain: str = "") -> dict[str, Role]:
        """Role -> its pods, of those that there are. The chief is the first node; beside parameter servers it is a pod more,
        without ranks. ``domain`` ends the host names."""
        servers = self.parameter_servers
        others = needs.nodes - (self.chief and not servers)
        field, share = ("coordinator", COORDINATOR_SHARE) if servers else ("nodes", None)
        roles = (
            _task("chief", int(self.chief), domain, field, share),
            _task("worker", others, domain, "nodes", None),
            _task("ps", servers, domain, "parameter_servers", SERVER_SHARE),
        )
        return {role.name: role for role in roles if role.pods}


def tasks_of(needs: Needs) -> Tasks:
    """Those of a topology that meets by TF_CONFIG."""
    return needs.part(Tasks) or Tasks()


def _task(name: str, pods: int, domain: str, field: str, share: Share | None) -> Role:
    host = f"{{name}}-{name}-{{index}}{domain}"
    return Role(name, pods, host, CONTAINER, share, works=share is not None, counted_in=f"run:/topology/{field}")
