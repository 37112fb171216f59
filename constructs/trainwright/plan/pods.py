"""The node pool that a run goes to, and what one pod takes of a node."""

from __future__ import annotations

from trainwright.cluster import Cluster, NodePool
from trainwright.findings import CompileError
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator
from trainwright.handshake import Needs
from trainwright.plan.model import ResourcesPlan, WorldPlan
from trainwright.run import Run
from trainwright.units import GIB, Bytes, Cpu

FABRIC_TITLES = {"tcp": "TCP", "infiniband": "InfiniBand", "roce": "RoCE", "efa": "EFA"}
NODE_SHARE = 0.9
"""Share of a node that pods can have; the rest is the kubelet's and the daemons'."""


def choose_pool(run: Run, cluster: Cluster, needs: Needs, locate: Locator) -> tuple[str, str]:
    """Name of the pool and why, or a finding that says which pools there are."""
    offers = ", ".join(
        f"{name} ({pool.gpu.per_node if pool.gpu else 0} GPUs per node)" for name, pool in cluster.node_pools.items()
    )
    if run.node_pool is not None:
        pool = cluster.node_pools.get(run.node_pool)
        if pool is None:
            raise CompileError(
                [
                    found(
                        "TW301",
                        locate.run("/node_pool"),
                        f"cluster {cluster.cluster} has no node pool {run.node_pool}",
                        f"use one of: {offers}",
                    )
                ]
            )
        if not _fits(pool, needs):
            raise CompileError(
                [
                    found(
                        "TW302",
                        locate.run("/node_pool"),
                        f"a node of pool {run.node_pool} has {pool.gpu.per_node if pool.gpu else 0} GPUs, the run asks for "
                        f"{needs.gpus_per_node} on each",
                        f"lower topology.gpus_per_node, or use one of: {offers}",
                    )
                ]
            )
        return run.node_pool, "as asked"
    without_gpu = [name for name, pool in cluster.node_pools.items() if pool.gpu is None]
    fitting = [name for name, pool in cluster.node_pools.items() if _fits(pool, needs)]
    if needs.gpus_per_node == 0 and without_gpu:
        return without_gpu[0], "the first pool without GPUs, since the run uses none"
    if not fitting:
        raise CompileError(
            [
                found(
                    "TW302",
                    locate.run("/topology/gpus_per_node"),
                    f"no node pool of cluster {cluster.cluster} has {needs.gpus_per_node} GPUs on a node",
                    f"lower topology.gpus_per_node and raise nodes; pools: {offers}",
                )
            ]
        )
    return fitting[0], f"the first pool with {needs.gpus_per_node} GPUs on a node" if needs.gpus_per_node else "the first pool"


def _fits(pool: NodePool, needs: Needs) -> bool:
    return needs.gpus_per_node <= (pool.gpu.per_node if pool.gpu else 0)


def describe_machine(pool: NodePool) -> str:
    """The machine in a reader's words: the GPU or the CPUs, and the fabric."""
    fabric = f"{FABRIC_TITLES[pool.fabric.kind]} {pool.fabric.links} x {pool.fabric.gigabits_per_link} Gb/s"
    if pool.gpu is None:
        return f"{pool.cpus} CPUs, {pool.memory}, {fabric}"
    return f"{pool.gpu.model} {pool.gpu.memory}, {fabric}"


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


def plan_resources(run: Run, pool: NodePool, needs: Needs) -> ResourcesPlan:
    """CPU, memory and shared memory of one pod.

    Default on GPUs: the pod's share of the node's GPUs, of 90 % of its CPUs and memory. Default on CPUs: one CPU and 2Gi for each
    process. Shared memory counts against the memory limit, because a memory-backed emptyDir is charged to the pod.
    """
    if needs.gpus_per_node and pool.gpu:
        share = needs.gpus_per_node / pool.gpu.per_node * NODE_SHARE
        cpu = Cpu(max(1000, int(pool.cpus.millicores * share) // 1000 * 1000))
        memory = Bytes(max(GIB, int(pool.memory.bytes * share) // GIB * GIB))
        why = f"{needs.gpus_per_node} of {pool.gpu.per_node} GPUs: that share of 90 % of a node"
        shm, shm_reason = (
            Bytes(2 * GIB * needs.gpus_per_node),
            "2Gi a rank: NCCL and data loaders; the runtime's 64Mi is too small",
        )
    else:
        cpu, memory = Cpu(1000 * needs.processes_per_node), Bytes(2 * GIB * needs.processes_per_node)
        why = "one CPU and 2Gi a process"
        shm, shm_reason = Bytes(GIB // 4), "data loaders; gloo uses none"
    asked = run.resources
    return ResourcesPlan(
        cpu=asked.cpu or cpu,
        cpu_reason="as asked" if asked.cpu else why,
        memory=asked.memory or memory,
        memory_reason="as asked" if asked.memory else why,
        shm=asked.shared_memory or shm,
        shm_reason="as asked" if asked.shared_memory else shm_reason,
    )
