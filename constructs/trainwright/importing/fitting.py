"""Runs on a profile that is there: the pool of each pod, and what the profile lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.cluster import Cluster, NodePool
from trainwright.cluster.runtimes import digest_of
from trainwright.importing.draft import claims_of
from trainwright.importing.pods import Needs
from trainwright.importing.propose import Proposal
from trainwright.objects.fields import text
from trainwright.operators import TARGETS


def assign(proposals: Sequence[Proposal], cluster: Cluster) -> list[str]:
    """Give each role its pool.

    Returns:
        What the profile lacks, each once.
    """
    lacks: list[str] = []
    finding_queues = cluster.kueue is not None and cluster.kueue.topology_aware
    for proposal in proposals:
        lacks += _lacking(proposal, cluster)
        for role, needs in proposal.needs.items():
            pool = _pool(needs, cluster)
            pointer = f"/roles/{role}/node_pool" if role else "/node_pool"
            if pool is None and not needs.labels and not needs.gpus:
                continue  # anywhere
            if pool is None:
                wanted = ", ".join(f"{key}: {value}" for key, value in needs.labels.items())
                amount = f"{needs.gpus} {needs.gpu} on a node" if needs.gpus else ""
                lacks.append(f"a node pool with {' and '.join(one for one in (wanted, amount) if one)}")
            else:
                proposal.words.say(pointer, pool)
        if level := proposal.level_beside(finding_queues=finding_queues):
            named = next((name for name, one in cluster.topology.items() if one.label == level.label), None)
            if named:
                proposal.put_together(named)
            else:
                lacks.append(f"a topology level of label {level.label}")
    return list(dict.fromkeys(lacks))


def _pool(needs: Needs, cluster: Cluster) -> str | None:
    """The pool whose labels say most of what the pod asks of its node, and whose nodes have its GPUs."""
    pools = cluster.node_pools
    without = not needs.gpus and all(pool.gpu for pool in pools.values())  # then pods without GPUs go where the others go
    named = {name for name, pool in pools.items() if not needs.gpus and pool.labels and pool.labels == needs.labels}
    fitting = {name: pool for name, pool in pools.items() if without or name in named or _has_gpus(pool, needs)}
    agreeing = {name: len(pool.labels.items() & needs.labels.items()) for name, pool in fitting.items()
                if all(needs.labels.get(key, value) == value for key, value in pool.labels.items())}  # fmt: skip
    best = max(agreeing, key=lambda name: agreeing[name], default=None)
    return best if best is not None and (agreeing[best] or not needs.labels) else None


def _has_gpus(pool: NodePool, needs: Needs) -> bool:
    if not needs.gpus:
        return pool.gpu is None
    return pool.gpu is not None and pool.gpu.resource == needs.gpu and pool.gpu.per_node >= needs.gpus


def _lacking(proposal: Proposal, cluster: Cluster) -> Iterator[str]:
    target, run = TARGETS[proposal.said.target], proposal.words.data
    for one in (target.operator, *target.depends_on):
        if one is not None and one.name not in cluster.operators:
            yield f"operator {one.name}, for {target.title}"
    if proposal.runtime:
        name = text(proposal.runtime, "/metadata/name")
        if name not in cluster.runtimes:
            yield f"runtime {name}; `trainwright runtimes {cluster.cluster} FILE` writes it"
        elif digest_of(cluster.runtimes[name].manifest) != digest_of(proposal.runtime):
            yield f"runtime {name} as the files have it: its own is another one"
    space = cluster.namespaces.get(proposal.namespace)
    if space is None:
        yield f"namespace {proposal.namespace}"
        return
    for claim in dict.fromkeys(claims_of(run)):
        if claim not in space.claims:
            yield f"claim {claim} in namespace {proposal.namespace}"
    queue = run.get("queue")
    if queue and cluster.kueue is not None and queue not in space.queues:
        yield f"queue {queue} in namespace {proposal.namespace}"
