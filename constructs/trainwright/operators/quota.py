"""What the queue of a run has to give, as the profile states it, and what the run asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from trainwright.cluster import Cluster
from trainwright.cluster.addons import ClusterQueue
from trainwright.findings.locate import escape
from trainwright.handshake import Role
from trainwright.manifest.template.containers import containers_of_role
from trainwright.objects.formats import amount
from trainwright.plan import Resolution
from trainwright.plan.pods import in_volcano_queue


class Offer(NamedTuple):
    """What a queue has of one resource, on the nodes of one flavor."""

    resource: str
    pools: tuple[str, ...]
    """Those whose nodes the flavor has; empty for any."""
    nominal: Decimal
    most: Decimal | None
    """With all that it may borrow; None where nothing limits that."""
    reach: Decimal | None
    """With all that the other queues of its cohort lend; None where the profile states none of them."""
    source: str
    """Where the profile states it."""


def quota_holder(cluster: Cluster, namespace: str, queue: str) -> str | None:
    """The queue that has the quota: with Kueue the ClusterQueue behind a queue of the namespace; None where nobody says which."""
    if cluster.kueue is None:
        return queue
    stated = cluster.namespaces[namespace].queues.get(queue) if namespace in cluster.namespaces else None
    return stated.cluster_queue if stated else None


def offers(resolution: Resolution) -> list[Offer]:
    """Of the queue of a run; nothing where it has none, or the profile states no quota of it."""
    run, cluster = resolution.run, resolution.cluster
    if run.queue is None:
        return []
    if in_volcano_queue(run, cluster):
        source = f"cluster:/scheduling/capability/{escape(run.queue)}"
        stated = cluster.scheduling.capability.get(run.queue, {}).items()
        return [Offer(name, (), _number(text), _number(text), None, f"{source}/{escape(name)}") for name, text in stated]
    name = quota_holder(cluster, run.namespace, run.queue)
    if cluster.kueue is None or name is None or name not in cluster.kueue.cluster_queues:
        return []
    return list(_of_kueue(name, cluster.kueue.cluster_queues))


def _of_kueue(name: str, queues: dict[str, ClusterQueue]) -> Iterator[Offer]:
    """A queue of a cohort may borrow what others there have and do not use (kubernetes-sigs/kueue, pkg/cache/scheduler)."""
    queue = queues[name]
    others = [one for other, one in queues.items() if other != name and queue.cohort and one.cohort == queue.cohort]
    for flavor, offered in queue.flavors.items():
        for resource, quota in offered.resources.items():
            source = f"cluster:/kueue/cluster_queues/{escape(name)}/flavors/{escape(flavor)}/resources/{escape(resource)}"
            there = [one.flavors[flavor].resources.get(resource) for one in others if flavor in one.flavors]
            lent = sum((_number(one.lending_limit or one.nominal) for one in there if one), Decimal())
            nominal, most = _number(quota.nominal), None
            if queue.cohort is None:
                most = nominal
            elif quota.borrowing_limit is not None:
                most = nominal + _number(quota.borrowing_limit)
            yield Offer(resource, tuple(offered.node_pools), nominal, most, nominal + lent if others else None, source)


def asked(resolution: Resolution, role: Role) -> dict[str, Decimal]:
    """What all pods of a role request together. Pods that are not there at first, of an elastic or autoscaled run, do not count
    where a gang may begin without them.
    """
    pods, one = _pods(resolution, role), {"pods": Decimal(1)}
    for planned in resolution.amounts[role.name]:
        one[planned.name] = _number(planned.request)
    for container, _ in containers_of_role(resolution, role):
        for name, text in (("cpu", container.cpu), ("memory", container.memory)) if container.kind != "init" else ():
            one[name] = one.get(name, Decimal()) + _number(str(text))
    return {name: number * pods for name, number in one.items()}


def asked_together(resolution: Resolution) -> dict[str, Decimal]:
    """Resource that the queue has a quota of -> what all pods of the run request."""
    roles = [asked(resolution, role) for role in resolution.binding.roles]
    return {one.resource: sum((role.get(one.resource, Decimal()) for role in roles), Decimal()) for one in offers(resolution)}


def _pods(resolution: Resolution, role: Role) -> int:
    needs, gang = resolution.needs, resolution.plan.gang
    if gang and role.name in needs.autoscaled:
        return needs.autoscaled[role.name].least
    fewer = needs.nodes - needs.elastic.minimum if gang and needs.elastic and role == resolution.binding.ranks else 0
    return role.pods - fewer


def _number(text: str) -> Decimal:
    return amount(text) or Decimal()
