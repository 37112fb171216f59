"""The pods of a run: the node pool that they go to, what each takes of a node, what it listens on, and how they start."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from trainwright.cluster import Cluster, Fabric, NodePool
from trainwright.findings import CompileError
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator
from trainwright.handshake import Binding, Needs, Ports, Role
from trainwright.plan.model import GangPlan, PlacementPlan, WorldPlan
from trainwright.run import Run
from trainwright_trainer.contract.layout import CONTROL_PORT, HTTP_PORT, RENDEZVOUS_PORT

FABRIC_TITLES = {"tcp": "TCP", "infiniband": "InfiniBand", "roce": "RoCE", "efa": "EFA"}


def choose_pool(run: Run, cluster: Cluster, needs: Needs, locate: Locator) -> tuple[str, str]:
    """Name of the pool and why.

    Raises:
        CompileError: where no pool fits, or not the one that the run names; the fix says which pools there are.
    """
    asked = needs.gpus_per_node
    found_pool = pool_for(run.node_pool, asked, cluster, locate, "/node_pool", "/topology/gpus_per_node")
    if run.node_pool is not None:
        return run.node_pool, "as asked"
    if found_pool is None:
        return next(iter(cluster.node_pools)), "the first pool"
    if asked:
        return found_pool, f"the first pool with {asked} GPUs on a node"
    return found_pool, "the first pool without GPUs, since the run uses none"


def pool_for(named: str | None, gpus: int, cluster: Cluster, locate: Locator, at_name: str, at_gpus: str) -> str | None:
    """The pool of that name, or the first one that fits a pod with so many GPUs; None where a pod without GPUs may go anywhere.

    Args:
        at_name: pointer of the field that names the pool.
        at_gpus: pointer of the field that states the GPUs.

    Raises:
        CompileError: where no pool fits, or not the one that is named; the fix says which pools there are.
    """
    offers = ", ".join(f"{name} ({_gpus(pool)} GPUs per node)" for name, pool in cluster.node_pools.items())
    field = at_gpus[1:].replace("/", ".")
    if named is not None:
        pool = cluster.node_pools.get(named)
        if pool is None:
            message = f"cluster {cluster.cluster} has no node pool {named}"
            raise CompileError([found("TW301", locate.run(at_name), message, f"use one of: {offers}")])
        if gpus > _gpus(pool):
            message = f"a node of pool {named} has {_gpus(pool)} GPUs, the run asks for {gpus} on each"
            raise CompileError([found("TW302", locate.run(at_name), message, f"lower {field}, or use one of: {offers}")])
        return named
    fitting = [name for name, pool in cluster.node_pools.items() if (gpus <= _gpus(pool) if gpus else pool.gpu is None)]
    if gpus and not fitting:
        message = f"no node pool of cluster {cluster.cluster} has {gpus} GPUs on a node"
        fix = f"lower {field} and raise the number of pods; pools: {offers}"
        raise CompileError([found("TW302", locate.run(at_gpus), message, fix)])
    return fitting[0] if fitting else None


def _gpus(pool: NodePool) -> int:
    return pool.gpu.per_node if pool.gpu else 0


def describe_machine(pool: NodePool) -> str:
    """The machine in a reader's words: the GPU or the CPUs, and the fabric."""
    if pool.gpu is None:
        return f"{pool.cpus} CPUs, {pool.memory}, {describe_network(pool.fabric)}"
    return f"{pool.gpu.model} {pool.gpu.memory}, {describe_network(pool.fabric)}"


def describe_network(fabric: Fabric) -> str:
    """What connects the nodes: ``InfiniBand 8 x 400 Gb/s``."""
    network = f"{FABRIC_TITLES[fabric.kind]} {fabric.links} x {fabric.gigabits_per_link} Gb/s"
    return network if fabric.kind_is_stated else f"network not stated, counted as {network}"


def plan_world(needs: Needs, cluster: Cluster, pool: str, reason: str) -> WorldPlan:
    """Ranks, and the machine each group of them lives on."""
    return WorldPlan(
        nodes=needs.nodes,
        processes_per_node=needs.processes_per_node,
        gpus_per_node=needs.gpus_per_node,
        size=needs.world_size,
        device="cuda" if needs.gpus_per_node else "cpu",
        pool=pool,
        pool_reason=reason,
        machine=describe_machine(cluster.node_pools[pool]),
    )


def plan_placement(run: Run, roles: Sequence[Role]) -> PlacementPlan | None:
    """None where pods may share a node. On the node's network a launcher needs a node of its own too: it has ports as well.

    ``roles`` are those whose pods go to the pool of the run.
    """
    ranks = sum(role.pods for role in roles if role.holds_ranks)
    if run.host_network:
        nodes = sum(role.pods for role in roles)
        beside = [role.name for role in roles if not role.holds_ranks]
        others = f", and {nodes - ranks} of them is for the {' and '.join(beside)}, which holds no ranks" if beside else ""
        return PlacementPlan(nodes, f"pods would want the same ports of a node{others}")
    return PlacementPlan(ranks, "as asked, for pods that hold ranks") if run.placement.one_per_node else None


def plan_gang(run: Run, cluster: Cluster, needs: Needs, binding: Binding) -> GangPlan | None:
    """None where pods are scheduled one by one: no gang scheduler, not wanted, one pod only, pods that do not communicate, or
    Kueue admits the run as a whole.

    The smallest number that may start is all pods, a launcher among them; of an elastic run its smallest size. In a queue of
    Volcano one pod is a group too: Volcano knows the queue by the group alone.
    """
    scheduling, pods = cluster.scheduling, sum(role.pods for role in binding.roles)
    queued = run.queue is not None and cluster.kueue is not None
    if scheduling.gang is None or scheduling.name is None or not run.gang or (queued and not scheduling.with_kueue):
        return None
    if (pods == 1 or not needs.talk) and not in_volcano_queue(run, cluster):
        return None
    fewest = sum(needs.autoscaled[role.name].least if role.name in needs.autoscaled else role.pods for role in binding.roles)
    minimum = needs.elastic.minimum if needs.elastic else fewest if needs.talk else 1
    return GangPlan(
        scheduler=scheduling.gang,
        scheduler_name=scheduling.name,
        made_by=binding.gang,
        minimum=minimum,
        minimum_reason=_gang_reason(needs, pods),
        queue=None if queued else run.queue,
    )


def in_volcano_queue(run: Run, cluster: Cluster) -> bool:
    """Whether the run's queue is one of Volcano, which reads it where Kueue does not."""
    return run.queue is not None and cluster.kueue is None and cluster.scheduling.has_queues


def _gang_reason(needs: Needs, pods: int) -> str:
    if needs.elastic:
        return "with fewer nodes the elastic run waits"
    if needs.autoscaled:
        return "the head and the fewest workers: the autoscaler brings the others"
    if not needs.talk:
        return "pods do not wait for each other, and their group is what the queue counts"
    return "every pod: ranks wait for each other" if pods > 1 else "the one pod: its group is what the queue counts"


FIRST_PORT, LAST_PORT = 20_000, 29_999
"""Below the ports of NodePort services (30000 to 32767) and those that Linux gives to outgoing connections (from 32768)."""
PORTS_PER_RUN = 4
SSH_PORT = 2222
"""Of the non-root sshd in the images of MPI (mpi-operator, build/base)."""


def plan_ports(run: Run) -> Ports:
    """The usual ones in a network of the pod's own; on the node's network a block that follows from the run's name."""
    if not run.host_network:
        return Ports(rendezvous=RENDEZVOUS_PORT, control=CONTROL_PORT, http=HTTP_PORT, ssh=SSH_PORT)
    blocks = (LAST_PORT + 1 - FIRST_PORT) // PORTS_PER_RUN
    number = int.from_bytes(hashlib.sha256(f"{run.namespace}/{run.run}".encode()).digest()[:8]) % blocks
    first = FIRST_PORT + PORTS_PER_RUN * number
    return Ports(rendezvous=first, control=first + 1, http=first + 2, ssh=first + 3)
