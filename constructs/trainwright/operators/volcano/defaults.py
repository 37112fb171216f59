"""What a Volcano Job is stored with: its mutating webhook (pkg/webhooks/admission/jobs/mutate/mutate_job.go at v1.15)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trainwright.objects.fields import items, mapping, whole
from trainwright.objects.stored import fill
from trainwright.operators.operator import Tree

NEEDS: Mapping[str, tuple[str, ...]] = {"tensorflow": ("svc",), "pytorch": ("svc",), "ray": ("svc",), "mpi": ("svc", "ssh")}
"""Plugin -> those that come with it."""
MOST_RETRIES = 3


def defaults(manifest: Mapping[str, Any]) -> Tree:
    """The first scheduler of the webhook's list is ``volcano``, unless it was started with others."""
    stored = copy.deepcopy(dict(manifest))
    spec = stored.get("spec")
    if not isinstance(spec, dict):
        return stored
    for index, task in items(spec, "/tasks"):
        if isinstance(task, dict):
            _fill_in_task(task, index)
    fill(spec, {"queue": "default", "schedulerName": "volcano"})
    spec["maxRetry"] = spec.get("maxRetry") or MOST_RETRIES
    least = sum(whole(task, "/minAvailable") or 0 for _, task in items(spec, "/tasks"))
    spec["minAvailable"] = spec.get("minAvailable") or least
    for plugin in tuple(mapping(spec, "/plugins")):
        fill(spec["plugins"], {needed: [] for needed in NEEDS.get(plugin, ())})
    return stored


def _fill_in_task(task: Tree, index: int) -> None:
    least = (whole(task, "/partitionPolicy/minPartitions") or 0) * (whole(task, "/partitionPolicy/partitionSize") or 0)
    fill(task, {"name": f"default{index}", "replicas": 1})  # the CRD has the number of replicas
    fill(task, {"minAvailable": least or task["replicas"]})
    task["maxRetry"] = task.get("maxRetry") or MOST_RETRIES
    if mapping(task, "/template/spec").get("hostNetwork"):
        fill(task["template"]["spec"], {"dnsPolicy": "ClusterFirstWithHostNet"})
