"""The pool that the pods of each role go to, and what a role that the run brings takes of a node and runs."""

from __future__ import annotations

from collections.abc import Iterable

from trainwright.cluster import Cluster, NodePool
from trainwright.findings.locate import Locator, escape
from trainwright.handshake import FurtherRole, Needs, Port, Process, Role, Share
from trainwright.plan.pods import choose_pool, pool_for
from trainwright.plan.resources import node_share
from trainwright.run import RoleParts, Run
from trainwright.units import GIB, Bytes, Cpu

UNKNOWN = Share(Cpu(2000), Bytes(8 * GIB), "a program that nobody knows here")
"""What a pod of a further role takes without GPUs, where the run states nothing."""


def further_roles(run: Run, cluster: Cluster, needs: Needs, locate: Locator) -> tuple[FurtherRole, ...]:
    """Roles that the run brings, in the order in which it states them.

    Raises:
        CompileError: where no pool fits one of them.
    """
    return tuple(_further(run, cluster, needs, name, parts, locate) for name, parts in run.roles.items() if parts.is_further)


def _further(run: Run, cluster: Cluster, needs: Needs, name: str, parts: RoleParts, locate: Locator) -> FurtherRole:
    pool = cluster.node_pools[_pool_of(run, cluster, needs, name, locate)]
    return FurtherRole(name, parts.pods or 0, _share(pool, parts.gpus), parts.starts, parts.must_end)


def _share(pool: NodePool, gpus: int) -> Share:
    if gpus and pool.gpu:
        return Share(*node_share(pool, gpus), f"{gpus} of {pool.gpu.per_node} GPUs: that share of 90 % of a node")
    return UNKNOWN


def role_pools(run: Run, cluster: Cluster, needs: Needs, roles: Iterable[Role], locate: Locator) -> dict[str, str]:
    """Role -> the pool that its pods go to; those with ranks are all in one.

    Raises:
        CompileError: where there is no such pool, or its nodes have fewer GPUs than the role asks for.
    """
    usual = choose_pool(run, cluster, needs, locate)[0]
    return {role.name: usual if role.holds_ranks else _pool_of(run, cluster, needs, role.name, locate) for role in roles}


def _pool_of(run: Run, cluster: Cluster, needs: Needs, name: str, locate: Locator) -> str:
    parts, usual = run.roles.get(name), choose_pool(run, cluster, needs, locate)[0]
    if parts is None or (parts.node_pool is None and not parts.is_further):
        return usual
    offered = cluster.node_pools[usual].gpu
    if parts.gpus and parts.node_pool is None and offered and parts.gpus <= offered.per_node:
        return usual
    at = f"/roles/{escape(name)}"
    return pool_for(parts.node_pool, parts.gpus, cluster, locate, f"{at}/node_pool", f"{at}/gpus") or usual


def own_ports(name: str, parts: RoleParts) -> tuple[Port, ...]:
    """What a role states of the ports of its program."""
    return tuple(Port(port, number, "as asked", f"run:/roles/{name}/ports/{port}") for port, number in parts.ports.items())


def further_process(name: str, parts: RoleParts) -> Process:
    """What the pods of a further role run; without a command their image's own entrypoint."""
    ports = own_ports(name, parts)
    ready = ports[0].name if ports and parts.ready is None else None
    return Process(tuple(parts.command or ()), tuple(parts.args), ports=ports, supervised=False, ready_port=ready)
