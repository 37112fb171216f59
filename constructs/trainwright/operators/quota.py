"""What a queue has to give, as a profile or a cluster states it, and what a run asks of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    flavor: str = ""
    free: Decimal | None = None
    """What it could give now; None where nobody says what is used."""


Usage = Mapping[str, Mapping[tuple[str, str], Decimal]]
"""Queue -> flavor and resource -> what its workloads have now."""


def beyond(number: Decimal, offered: Sequence[Offer]) -> tuple[Decimal, bool] | None:
    """What flavors give at most where a number is above it, and whether that is sure; None where one may have it.

    Kueue takes the pods of one role from one flavor (kubernetes-sigs/kueue, pkg/scheduler/flavorassigner). What a cohort lends,
    only the cluster knows for sure: it may have quota of its own.
    """
    for sure, stated in ((True, [one.most for one in offered]), (False, [one.reach for one in offered])):
        known = [limit for limit in stated if limit is not None]
        if known and len(known) == len(stated) and number > max(known):
            return max(known), sure
    return None


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
    return list(of_kueue(name, cluster.kueue.cluster_queues))


def of_kueue(name: str, queues: Mapping[str, ClusterQueue], used: Usage | None = None) -> Iterator[Offer]:
    """What a ClusterQueue has. One of a cohort may borrow what others there have and do not use (kubernetes-sigs/kueue,
    pkg/cache/scheduler/resource_node.go).

    Args:
        name: of the queue.
        queues: it and the others, at least those of its cohort.
        used: what their workloads have now.
    """
    queue = queues[name]
    others = [other for other, one in queues.items() if other != name and queue.cohort and one.cohort == queue.cohort]
    for flavor, offered in queue.flavors.items():
        for resource, quota in offered.resources.items():
            source = f"cluster:/kueue/cluster_queues/{escape(name)}/flavors/{escape(flavor)}/resources/{escape(resource)}"
            shares = {other: _share(queues[other], flavor, resource) for other in others}
            own, most = _share(queue, flavor, resource), None
            if queue.cohort is None:
                most = own.nominal
            elif quota.borrowing_limit is not None:
                most = own.nominal + _number(quota.borrowing_limit)
            reach = own.nominal + sum((one.lent for one in shares.values()), Decimal()) if others else None
            free = None if used is None else _free(name, own, shares, most, used, (flavor, resource))
            yield Offer(resource, tuple(offered.node_pools), own.nominal, most, reach, source, flavor, free)


class _Share(NamedTuple):
    """Of one queue in its cohort."""

    nominal: Decimal
    lent: Decimal
    """What of it others may have."""


def _share(queue: ClusterQueue, flavor: str, resource: str) -> _Share:
    quota = queue.flavors[flavor].resources.get(resource) if flavor in queue.flavors else None
    if quota is None:
        return _Share(Decimal(), Decimal())
    return _Share(_number(quota.nominal), _number(quota.lending_limit or quota.nominal))


def _free(
    name: str, own: _Share, others: Mapping[str, _Share], most: Decimal | None, used: Usage, key: tuple[str, str]
) -> Decimal:
    """Its own part that nobody else may have, and what is left of what the cohort has in common, as far as it may borrow."""
    shares, taken = {name: own, **others}, {queue: used.get(queue, {}).get(key, Decimal()) for queue in (name, *others)}
    kept = {queue: one.nominal - one.lent for queue, one in shares.items()}
    in_common = sum((one.lent - max(Decimal(), taken[queue] - kept[queue]) for queue, one in shares.items()), Decimal())
    free = max(Decimal(), kept[name] - taken[name]) + max(Decimal(), in_common)
    return max(Decimal(), free if most is None else min(free, most - taken[name]))


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
