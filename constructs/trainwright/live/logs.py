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
    """The pod that has the log of a rank; None where only the run itself knows which that is.

    mpirun brings what its ranks write into the log of the pod that it runs in.
    """
    binding, world = plan.binding, plan.plan.world
    if binding.environment is EnvironmentChannel.LAUNCHER:
        return [one for one in case.pods if one.role == binding.roles[0].name]
    if plan.needs.rendezvous in AS_THEY_COME:
        return None
    order = {role.name: place for place, role in enumerate(binding.roles) if role.holds_ranks}
    holders = [one for one in case.pods if one.role in order]
    holders.sort(key=lambda one: (order[one.role], int(one.index or 0), one.name))
    return holders[rank // world.processes_per_node :][:1]


def sources(pod: LivePod) -> Iterator[Source]:
    """Of the containers of a pod that have run."""
    for _, one in pod.containers():
        again = bool(one.get("restartCount")) and "running" not in mapping(one, "/state")
        if again or "waiting" not in mapping(one, "/state"):
            yield Source(pod.name, text(one, "/name"), again)
