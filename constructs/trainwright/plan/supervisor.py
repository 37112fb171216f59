"""Where the supervisor of a run is: in the run's own image, or in a folder that its pods bring along."""

from __future__ import annotations

import re

from trainwright.cluster import Cluster
from trainwright.cluster.model import is_from
from trainwright.handshake import Binding, Needs
from trainwright.plan.model import BroughtSupervisor
from trainwright.run import Run

EXECUTED_FROM = 36
"""Minor version of Kubernetes 1 from which on files in a volume of an image can be executed. Such volumes are on by default from
1.35 on, whose API still says `noexec`, as runtimes were free to do; kubernetes#135775 and enhancements#5354 took that out.
"""


def plan_supervisor(run: Run, cluster: Cluster, needs: Needs, binding: Binding) -> BroughtSupervisor | None:
    """None where nothing is supervised, where the image has the supervisor, and where there is none to bring."""
    offered = cluster.supervisor
    if offered.image is None or not may_bring(run, cluster, needs) or kept_out(cluster, binding):
        return None
    return BroughtSupervisor(offered.image, _mounted(cluster))


def kept_out(cluster: Cluster, binding: Binding) -> str | None:
    """Why the pods can bring none along; None if they can."""
    if binding.runtime and not _mounted(cluster):
        return (f"the pods are those of runtime {binding.runtime}, to which a TrainJob adds volumes but no container that copies "
                f"it, and on Kubernetes {cluster.kubernetes} nothing is executed from a volume of an image")  # fmt: skip
    return None


def _mounted(cluster: Cluster) -> bool:
    """Whether pods have it in a volume of its image."""
    later = int(cluster.kubernetes.split(".")[1]) >= EXECUTED_FROM
    return later if cluster.supervisor.mounted is None else cluster.supervisor.mounted


def may_bring(run: Run, cluster: Cluster, needs: Needs) -> bool:
    """Whether the run asks for it, or nothing says that its image has the supervisor."""
    if run.workload.kind not in ("script", "command") or not run.supervised or not needs.talk or run.supervisor == "image":
        return False
    return run.supervisor == "brought" or not is_from(_repository(run.image), cluster.supervisor.in_images)


def _repository(image: str) -> str:
    """Without digest and tag."""
    return re.sub(r":[^/:]*$", "", image.partition("@")[0])
