"""What an incident costs: which pods come back after some were evicted, or lost with their node, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, Needs
from trainwright.plan.model import RecoveryPlan
from trainwright.run import Run
from trainwright.topology import LINKED
from trainwright.units import Duration

FIRST_SECONDS, MOST_SECONDS = 10, 600
LOSSES = range(1, 8)
"""Of one pod: from the last on, the delay grows no more."""
KAI, STALENESS_GRACE = "kai-scheduler", Duration.parse("60s")
"""Its name in pods, and how long it leaves a gang below its minimum alone where nobody tells it otherwise
(NVIDIA/KAI-Scheduler, pkg/common/constants/constants.go, cmd/scheduler/app/options/options.go)."""


def delay(failures: int) -> int:
    """Seconds before the Job controller makes the next pod (kubernetes, pkg/controller/job, backoff_utils.go).

    Args:
        failures: so far; those that the failure policy ignores are among them. Where a Job has a limit per index they are the
            index's own and never go back, else they are the whole Job's: an incident that takes N pods along adds N.
    """
    return int(min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(failures - 1, MOST_SECONDS)))


def delayed(binding: Binding, supervised: bool) -> bool:
    """Whether each eviction makes the next new pod wait longer."""
    return binding.recovery.delays == "all" or (binding.recovery.delays == "ignored" and supervised)


def plan_recovery(
    run: Run, cluster: Cluster, needs: Needs, binding: Binding, operators: Collection[str]
) -> RecoveryPlan | None:
    """None where no supervisors are connected that could agree on another attempt.

    Args:
        operators: by which the run's target makes its pods.
    """
    if not needs.talk or not run.supervised:
        return None
    in_the_way = [one.said for one in evicting(run, cluster, needs, operators)]
    why_not = "; ".join(filter(None, (takes_others(needs, binding), *in_the_way)))
    return RecoveryPlan(run.recovery != "whole-job" and not why_not, run.recovery_wait, why_not)


def takes_others(needs: Needs, binding: Binding) -> str:
    """Why the other pods cannot stay when one has ended, on any cluster; empty where they can."""
    if needs.elastic:
        return "an elastic run goes on by itself, with the pods that are left"
    if needs.rendezvous in LINKED:
        return binding.recovery.takes_others
    nobody = f"no supervisor decides for all pods where the rendezvous is {needs.rendezvous.value}"
    return binding.recovery.takes_others or nobody


def incident(binding: Binding, needs: Needs, supervised: bool, recovery: RecoveryPlan | None = None) -> str:
    """What comes back, and when; empty where that is not known."""
    first, *more = map(delay, LOSSES)
    after = f"{first} s, then {', '.join(map(str, more))} s where the same pod is lost again"
    if recovery and recovery.in_place:
        back = f"after {after}" if delayed(binding, supervised) else "at once"
        others = f"; the others stay, and wait for it, up to {recovery.wait}" if needs.nodes > 1 else ""
        return f"that pod alone comes back {back}{others}; a rank that is lost costs no pod"
    if not delayed(binding, supervised):
        return binding.recovery.returns
    if supervised and needs.talk:
        return f"all pods leave together and come back after {after}"
    return f"that pod alone comes back after {after}" + ("; its peers wait for it" if needs.talk else "")


class Impatient(NamedTuple):
    """Somebody who evicts the pods that are left, while those that were lost come back."""

    said: str
    """What it does, and when."""
    after: Duration | None
    """How long it waits after a loss; None for as long as it takes, or where time does not matter."""
    source: str
    """Where the profile states it."""
    anyway: bool = False
    """Whether it does so however soon they come back."""

    def evicts_within(self, wait: Duration) -> bool:
        """Whether pods that wait so long may be evicted meanwhile."""
        return self.anyway or (self.after is not None and self.after < wait)


def impatient(run: Run, cluster: Cluster, needs: Needs, operators: Collection[str]) -> Iterator[Impatient]:
    """Those that the profile states or the pods name, and what they do to a run (kubernetes-sigs/kueue, pkg/controller/core,
    workload_controller.go; NVIDIA/KAI-Scheduler, actions/stalegangeviction; kubernetes-sigs/jobset, pod_controller.go).

    Args:
        operators: by which the run's target makes its pods.
    """
    kueue = cluster.kueue if run.queue else None
    if kueue and (waits := kueue.wait_for_pods_ready):
        recovery = kueue.recovery_timeout
        again = f"; and {recovery} after one is lost" if recovery else ""
        times = "" if waits.backoff_limit is None else f", {waits.backoff_limit} times at most"
        said = f"Kueue suspends the whole run where not all pods are ready {waits.timeout} after it is admitted{again}"
        stated = "timeout" if waits.recovery_timeout is None else "recovery_timeout"
        yield Impatient(f"{said}, and queues it again{times}", recovery, f"cluster:/kueue/wait_for_pods_ready/{stated}")
    if needs.most_nodes > 1 and (grace := _staleness_grace(run, cluster, operators)):
        said = f"KAI evicts the other pods {grace} after one is lost, where fewer than its gang's minimum are left"
        yield Impatient(said, grace, "cluster:/scheduling/staleness_grace")
    jobset = cluster.operators.get("jobset")
    if "jobset" in operators and needs.most_nodes > 1 and jobset and jobset.exclusive_placement:
        said = "JobSet deletes all other pods where that of node 0 comes back in another place"
        yield Impatient(said, None, "cluster:/operators/jobset/exclusive_placement", anyway=True)


def _staleness_grace(run: Run, cluster: Cluster, operators: Collection[str]) -> Duration | None:
    """KAI's; None where it does not place the pods, by all that profile and run say."""
    patches = (*run.overrides.pod.values(), *(one.patch for one in run.overrides.objects))
    overridden = {scheduler for patch in patches for scheduler in _schedulers(patch)}
    flags = (cluster.operators[name].gang_scheduler for name in operators if name in cluster.operators)
    placed = KAI in (overridden or {cluster.scheduling.name, *flags})
    return cluster.scheduling.staleness_grace or (STALENESS_GRACE if placed else None)


def _schedulers(patch: object) -> Iterator[object]:
    """That pods name anywhere in an override."""
    if isinstance(patch, Mapping):
        for key, value in patch.items():
            yield from [value] if key == "schedulerName" else _schedulers(value)
    elif isinstance(patch, list):
        yield from (one for item in patch for one in _schedulers(item))


def evicting(run: Run, cluster: Cluster, needs: Needs, operators: Collection[str]) -> list[Impatient]:
    """Those who would evict pods that wait in place for one that is lost. One pod has no others that wait."""
    others = impatient(run, cluster, needs, operators) if needs.most_nodes > 1 else ()
    return [one for one in others if one.evicts_within(run.recovery_wait)]


def loss_beyond(limit: Duration) -> int | None:
    """The first loss of one pod after which the Job controller makes the next one later than that; None where it never does."""
    return next((failures for failures in LOSSES if delay(failures) > limit.seconds), None)
