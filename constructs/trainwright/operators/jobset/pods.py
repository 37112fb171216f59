"""The Jobs of a JobSet, and their pods (sigs.k8s.io/jobset, pkg/controllers/jobset_controller.go at v0.12)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha1
from typing import Any

from trainwright.operators.job.pods import pods as pods_of_job
from trainwright.operators.jobset.defaults import defaults
from trainwright.operators.operator import Around, Awaited, Made, Pod, Size, Tree, child, uid

PREFIX = "jobset.sigs.k8s.io/"


def pods(manifest: Mapping[str, Any], around: Around) -> Made:
    """A Job for each replica, and the Service by which pods find each other."""
    job_set = defaults(manifest)
    name, network = job_set["metadata"]["name"], job_set["spec"]["network"]
    subdomain = network.get("subdomain", name) if network["enableDNSHostnames"] else ""
    made, later, objects = list[Pod](), list[Pod](), [_service(job_set, subdomain)] if subdomain else []
    objects += [
        child(job_set, "PersistentVolumeClaim", f"{claim}-{name}", spec=template["spec"]) for claim, template in _claims(job_set)
    ]
    for number, (replicated, index) in enumerate(_replicas(job_set)):
        job = _job(job_set, replicated, index, number, subdomain)
        objects.append(job)
        of_job = pods_of_job(job, around)
        for pod in of_job.every_pod:
            priority = around.priorities.get(pod.spec.get("priorityClassName", ""), 0)
            pod.labels[f"{PREFIX}priority"] = str(priority)  # by the webhook on pods, pkg/webhooks/pod_mutating_webhook.go
            place = made if pod in of_job.pods else later
            place.append(replace(pod, role=replicated["name"], after=_awaited(job_set, replicated)))
    return Made(made, objects, later)


def resized(manifest: Mapping[str, Any], around: Around, size: Size) -> Tree:
    job_set: Tree = copy.deepcopy(dict(manifest))
    for replicated in job_set["spec"]["replicatedJobs"]:
        size.fewer(replicated, "replicas")
        size.fewer(replicated["template"]["spec"], "completions", "parallelism")
    return job_set


def _awaited(job_set: Tree, replicated: Tree) -> tuple[Awaited, ...]:
    """What it depends on; of a JobSet that starts in order, the one before it."""
    jobs = [one["name"] for one in job_set["spec"]["replicatedJobs"]]
    before = jobs[: jobs.index(replicated["name"])][-1:]
    in_order = before if job_set["spec"]["startupPolicy"]["startupPolicyOrder"] == "InOrder" else []
    stated = [Awaited(one["name"], one["status"]) for one in replicated.get("dependsOn", ())]
    return (*stated, *(Awaited(name, "Ready") for name in in_order))


def _claims(job_set: Tree) -> list[tuple[str, Tree]]:
    """Those that it makes for its own pods, which mount them by the template's name (pkg/controllers/volume_claim_policy.go)."""
    templates = (one for policy in job_set["spec"].get("volumeClaimPolicies", ()) for one in policy["templates"])
    return [(one["metadata"]["name"], one) for one in templates]


def _with_claims(job_set: Tree, pod: Tree) -> None:
    containers = (*pod["containers"], *pod.get("initContainers", ()))
    mounted = {mount["name"] for one in containers for mount in one.get("volumeMounts", ())}
    for claim, _ in _claims(job_set):
        if claim in mounted:
            source = {"persistentVolumeClaim": {"claimName": f"{claim}-{job_set['metadata']['name']}"}}
            pod.setdefault("volumes", []).append({"name": claim, **source})


def _replicas(job_set: Tree) -> list[tuple[Tree, int]]:
    return [(one, index) for one in job_set["spec"]["replicatedJobs"] for index in range(one["replicas"])]


def _service(job_set: Tree, subdomain: str) -> Tree:
    return child(job_set, "Service", subdomain, spec={
        "clusterIP": "None",
        "publishNotReadyAddresses": job_set["spec"]["network"]["publishNotReadyAddresses"],
        "selector": {f"{PREFIX}jobset-name": job_set["metadata"]["name"]},
    })  # fmt: skip


def _job(job_set: Tree, replicated: Tree, index: int, number: int, subdomain: str) -> Tree:
    """One Job, which has in labels and annotations, of its pods too, where it stands in the JobSet.

    Args:
        index: of the Job among the replicas.
        number: of the Job among all of the JobSet.
        subdomain: of the pods; empty where they have no names.
    """
    of_set, template = job_set["metadata"], copy.deepcopy(replicated["template"])
    name, group = f"{of_set['name']}-{replicated['name']}-{index}", replicated["groupName"]
    in_group = [(one, at) for one, at in _replicas(job_set) if one["groupName"] == group]
    told = {
        f"{PREFIX}{key}": str(value)
        for key, value in {
            "jobset-name": of_set["name"],
            "jobset-uid": uid(job_set),
            "replicatedjob-name": replicated["name"],
            "replicatedjob-replicas": replicated["replicas"],
            "global-replicas": len(_replicas(job_set)),
            "job-index": index,
            "job-global-index": number,
            "job-key": sha1(f"{of_set.get('namespace', 'default')}/{name}".encode(), usedforsecurity=False).hexdigest(),
            "group-name": group,
            "group-replicas": len(in_group),
            "job-group-index": [(one["name"], at) for one, at in in_group].index((replicated["name"], index)),
            "restart-attempt": 0,
        }.items()
    }
    for owner in (template, template["spec"]["template"]):
        metadata = owner.setdefault("metadata", {})
        for field in ("labels", "annotations"):
            metadata[field] = {**metadata.get(field, {}), **told}
    if subdomain:
        template["spec"]["template"]["spec"]["subdomain"] = subdomain
    _with_claims(job_set, template["spec"]["template"]["spec"])
    return child(job_set, "Job", name, "batch/v1", metadata=template["metadata"], spec={**template["spec"], "suspend": False})
