"""What targets share that run TensorFlow with parameter servers: the roles, and what their pods take of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.handshake import Needs, Role, Share
from trainwright.plan import Resolution
from trainwright.units import GIB, Bytes, Cpu

if TYPE_CHECKING:
    from trainwright.findings.context import Context

PORT = 2222
"""What TensorFlow's servers listen on by the default of the Training Operator and of Volcano's plugin."""

CONTAINER = "tensorflow"
EVALUATOR = "evaluator"
"""The further role that TensorFlow knows."""
SERVER_SHARE = Share(Cpu(4000), Bytes(16 * GIB), "variables and the optimizer's state, of a model that nobody knows here")
COORDINATOR_SHARE = Share(Cpu(4000), Bytes(16 * GIB), "it directs the workers, and holds no variables")


def several_pods(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Both set TF_CONFIG where there is more than one pod (tfjob_controller.go; volcano, plugins/…/tensorflow.go)."""
    if sum(role.pods for role in resolution.binding.roles) == 1:
        message = "one pod gets no TF_CONFIG: the strategy trains on this pod alone, and a program that reads the variable fails"
        yield found("TW422", context.locate.run("/topology/nodes"), message, "raise nodes, or waive this where one pod is meant")


def tasks(needs: Needs, domain: str = "") -> dict[str, Role]:
    """Role -> its pods, of those that there are. The chief is the first node; beside parameter servers it is a pod more, without
    ranks. ``domain`` ends the host names."""
    servers = needs.parameter_servers
    others = needs.nodes - (needs.chief and not servers)
    roles = (
        _task("chief", int(needs.chief), domain, "coordinator" if servers else "nodes", COORDINATOR_SHARE if servers else None),
        _task("worker", others, domain, "nodes", None),
        _task("ps", servers, domain, "parameter_servers", SERVER_SHARE),
    )
    return {role.name: role for role in roles if role.pods}


def _task(name: str, pods: int, domain: str, field: str, share: Share | None) -> Role:
    host = f"{{name}}-{name}-{{index}}{domain}"
    return Role(name, pods, host, CONTAINER, share, works=share is not None, counted_in=f"run:/topology/{field}")
