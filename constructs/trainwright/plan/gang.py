"""How the pods of a run start: all together or not at all, and through which queue."""

from __future__ import annotations

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, Needs
from trainwright.plan.model import GangPlan
from trainwright.run import Run


def plan_gang(run: Run, cluster: Cluster, needs: Needs, binding: Binding) -> GangPlan | None:
    """None where pods are scheduled one by one: no gang scheduler, not wanted, one pod only, or Kueue admits the run as a whole.

    The smallest number that may start is all pods, a launcher among them; of an elastic run its smallest size. In a queue of
    Volcano one pod is a group too: Volcano knows the queue by the group alone.
    """
    scheduling, pods = cluster.scheduling, sum(role.pods for role in binding.roles)
    queued = run.queue is not None and cluster.kueue is not None
    if scheduling.gang is None or scheduling.name is None or not run.gang or (queued and not scheduling.with_kueue):
        return None
    if pods == 1 and not in_volcano_queue(run, cluster):
        return None
    minimum = needs.elastic.minimum if needs.elastic else pods
    return GangPlan(
        scheduler=scheduling.gang,
        scheduler_name=scheduling.name,
        made_by=binding.gang,
        minimum=minimum,
        minimum_reason=_reason(needs, pods),
        queue=None if queued else run.queue,
    )


def in_volcano_queue(run: Run, cluster: Cluster) -> bool:
    """Whether the run's queue is one of Volcano, which reads it where Kueue does not."""
    return run.queue is not None and cluster.kueue is None and cluster.scheduling.gang == "volcano"


def _reason(needs: Needs, pods: int) -> str:
    if needs.elastic:
        return "with fewer nodes the elastic run waits"
    return "every pod: ranks wait for each other" if pods > 1 else "the one pod: its group is what the queue counts"
