"""The pods of a Job (kubernetes, pkg/controller/job/job_controller.go and indexed_job_utils.go)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trainwright.operators.job.child_jobs import INDEX_KEY, INDEX_LABEL, INDEX_VARIABLE
from trainwright.operators.job.defaults import selected
from trainwright.operators.operator import Around, Made, Pod, Size, Tree, child


def pods(manifest: Mapping[str, Any], around: Around) -> Made:
    """As many as run at a time: those of the lowest indexes."""
    job = selected(manifest)
    spec = job["spec"]
    indexed, at_once = spec["completionMode"] == "Indexed", spec["parallelism"]
    all_of_them = spec.get("completions", at_once)
    made = [_indexed(job, index, around) if indexed else _numberless(job, index, around) for index in range(all_of_them)]
    return Made(made[:at_once], later=made[at_once:])


def resized(manifest: Mapping[str, Any], around: Around, size: Size) -> Tree:
    job: Tree = copy.deepcopy(dict(manifest))
    size.fewer(job["spec"], "completions", "parallelism")
    return job


def pod_host_name(job: str, index: int) -> str:
    """Of the pod of an index. ``job`` is the Job's name."""
    return f"{job}-{index}"


def index_annotations(index: int, counted: bool) -> dict[str, str]:
    """Of the first pod of an index; ``counted`` says whether its failures are its own."""
    return {INDEX_KEY: str(index), **({"batch.kubernetes.io/job-index-failure-count": "0"} if counted else {})}


def _numberless(job: Tree, index: int, around: Around) -> Pod:
    pod = _pod(job, job["metadata"]["name"], around)
    return Pod("node", index, pod["metadata"]["name"], pod)


def _indexed(job: Tree, index: int, around: Around) -> Pod:
    host = pod_host_name(job["metadata"]["name"], index)
    pod = _pod(job, host, around)
    added = index_annotations(index, "backoffLimitPerIndex" in job["spec"])
    pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **added}
    pod["metadata"]["labels"][INDEX_KEY] = str(index)
    spec = pod["spec"]
    spec["hostname"] = host
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        env = container.setdefault("env", [])
        if all(variable["name"] != INDEX_VARIABLE for variable in env):
            env.append({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": INDEX_LABEL}}})
    return Pod("node", index, ".".join(filter(None, (host, spec.get("subdomain", "")))), pod)


def _pod(job: Tree, name: str, around: Around) -> Tree:
    template = copy.deepcopy(job["spec"]["template"])
    metadata = {**template.get("metadata", {}), "generateName": f"{name}-", "finalizers": ["batch.kubernetes.io/job-tracking"]}
    return child(job, "Pod", f"{name}-{around.suffix}", metadata=metadata, spec=template["spec"])
