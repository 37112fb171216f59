"""What the nodes of a Ray cluster and the run's specification must agree on, by the commands that KubeRay makes for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.rehearsal.stated.objects import Blocker, Objects, Slot, Specification

_LOCAL_DASHBOARD = re.compile(r"--dashboard-host[= ](localhost|127\.0\.0\.1|::1)\b")
_ADDRESS = re.compile(r"--address[= ]([^\s:]+)")
_GPUS = re.compile(r"--num-gpus[= ](\d+)")


def check_ray_cluster(objects: Objects, specification: Specification | None) -> Iterator[Blocker]:
    """Whether the submitter reaches its dashboard, workers its head, and Ray has a GPU for each rank."""
    nodes = [slot for slot in objects.slots if slot.spec.starts_ray]
    for slot in objects.first_of_roles:
        words = _started(slot)
        if found := _LOCAL_DASHBOARD.search(words):
            message = f"Ray's dashboard listens on {found[1]}, where neither the submitter nor KubeRay reaches it"
            yield Blocker(objects.place(slot), message, "write dashboard-host: 0.0.0.0")
        if (found := _ADDRESS.search(words)) and found[1].partition(".")[0] not in objects.made_services:
            message = f"it goes to {found[1]}, which is not the head of this cluster"
            yield Blocker(f"{objects.place(slot)}, rayStartParams", message, "remove address: KubeRay writes the head's Service")
    if not nodes or specification is None or specification.spec.world.device != "cuda":
        return
    has, world = sum(int(found[1]) for slot in nodes if (found := _GPUS.search(_started(slot)))), specification.spec.world
    if has < world.size:
        message = f"Ray has {has} GPUs, and the world of {specification.where} has {world.size} ranks: it waits for the others"
        yield Blocker(objects.where, message, "write the replicas and num-gpus of its groups so that they are as many")


def _started(slot: Slot) -> str:
    """The command lines of a pod that is a node of Ray; nothing of another."""
    containers = slot.spec.containers if slot.spec.starts_ray else ()
    return " ".join(word for container in containers for word in (*container.command, *container.args))
