"""Which pods have the log that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trainwright.handshake import EnvironmentChannel, Rendezvous
from trainwright.live.case import Case, LivePod
from trainwright.live.ends import first_failure
from trainwright.objects.fields import mapping, text
from trainwright.plan import Resolution


class Source(NamedTuple):
    """A container whose log is meant."""

    pod: str
    container: str
    previous: bool
    """Whether the log of the time before its last start is meant."""


def of_pod(case: Case, pod: str) -> list[LivePod]:
    """By its label, number or name."""
    return [one for one in case.pods if pod in (case.label(one.name), one.index, one.name)]


def failed_first(case: Case) -> list[LivePod]:
    """Of those that are here now, else of those that were replaced."""
    end = first_failure([one for one in case.pods if one.phase == "Failed"] or case.replaced or case.pods)
    return [one for one in case.every_pod if end and one.name == end.pod]


AS_THEY_COME = (Rendezvous.C10D, Rendezvous.RAY_HEAD)
"""Kinds of rendezvous that number ranks as their pods come."""


def of_rank(case: Case, rank: int, plan: Resolution) -> list[LivePod] | None:
    """The pod that has the log of a rank, if it is there; None where only the run itself knows which that is.

    mpirun brings what its ranks write into the log of the pod that it runs in.
    """
    binding, world = plan.binding, plan.plan.world
    if binding.environment is EnvironmentChannel.LAUNCHER:
        return [one for one in case.pods if one.role == binding.roles[0].name]
    if plan.needs.rendezvous in AS_THEY_COME:
        return None
    node = rank // world.processes_per_node
    for role in (one for one in binding.roles if one.holds_ranks):
        if node < role.pods:
            return [one for one in case.pods if one.role == role.name and int(one.index or 0) == node]
        node -= role.pods
    return []


def sources(pod: LivePod) -> Iterator[Source]:
    """Of the containers of a pod that have run. The log of one that has ended is that of its last time, and no previous one."""
    for _, one in pod.containers():
        waits = "waiting" in mapping(one, "/state")
        if not waits or one.get("restartCount"):
            yield Source(pod.name, text(one, "/name"), waits)
