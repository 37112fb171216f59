"""Where the supervisor of a run is: in the run's own image, or in a folder that its pods bring along."""

from __future__ import annotations

import re

from trainwright.cluster import Cluster
from trainwright.cluster.model import is_from
from trainwright.handshake import Binding, Needs, Rendezvous
from trainwright.plan.model import BroughtSupervisor
from trainwright.run import Run, ScriptWorkload

EXECUTED_FROM = 36
"""Minor version of Kubernetes 1 from which on files in a volume of an image can be executed. Such volumes are on by default from
1.35 on, whose API still says `noexec`, as runtimes were free to do; kubernetes#135775 and enhancements#5354 took that out.
"""
IN_THE_IMAGE = {Rendezvous.C10D: "torch, by which its pods meet", Rendezvous.RAY_HEAD: "Ray, by which its ranks are placed"}
"""Rendezvous -> what the supervisor itself imports there, which only the image can have."""


def plan_supervisor(run: Run, cluster: Cluster, needs: Needs, binding: Binding) -> BroughtSupervisor | None:
    """None where nothing is supervised, where the image has the supervisor, and where there is none to bring."""
    offered = cluster.supervisor
    if offered.image is None or not may_bring(run, cluster, needs) or kept_out(run, needs, binding):
        return None
    later = int(cluster.kubernetes.split(".")[1]) >= EXECUTED_FROM
    return BroughtSupervisor(offered.image, later if offered.mounted is None else offered.mounted)


def kept_out(run: Run, needs: Needs, binding: Binding) -> str | None:
    """Why the pods can bring none along; None if they can."""
    if needs.rendezvous in IN_THE_IMAGE:
        return f"{run.topology.title} needs {IN_THE_IMAGE[needs.rendezvous]}, and what pods bring along has none"
    if binding.runtime:
        return f"the pods are those of runtime {binding.runtime}, to which a TrainJob adds no containers"
    return None


def may_bring(run: Run, cluster: Cluster, needs: Needs) -> bool:
    """Whether the run asks for it, or nothing says that its image has the supervisor."""
    if not isinstance(run.workload, ScriptWorkload) or not needs.talk or run.supervisor == "image":
        return False
    return run.supervisor == "brought" or not is_from(_repository(run.image), cluster.supervisor.in_images)


def _repository(image: str) -> str:
    """Without digest and tag."""
    return re.sub(r":[^/:]*$", "", image.partition("@")[0])
