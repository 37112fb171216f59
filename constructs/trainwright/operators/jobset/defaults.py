"""What a JobSet is stored with: its mutating webhook (pkg/webhooks/jobset_webhook.go at v0.12), and the defaults of its CRD."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items
from trainwright.objects.stored import fill
from trainwright.operators.operator import Tree

JOBS, POD = "/spec/replicatedJobs", "/template/spec/template/spec"


def defaults(manifest: Mapping[str, Any]) -> Tree:
    stored = copy.deepcopy(dict(manifest))
    spec = stored.get("spec")
    if isinstance(spec, dict):
        fill(spec, {"suspend": False, "network": {}, "successPolicy": {}, "startupPolicy": {}})
        for field, values in _POLICIES.items():
            if isinstance(spec.get(field), dict):
                fill(spec[field], values)
        fill_in(stored)
    return stored


_POLICIES: Mapping[str, Mapping[str, Any]] = {
    "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
    "successPolicy": {"operator": "All"},
    "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    "failurePolicy": {"restartStrategy": "Recreate", "maxRestarts": 0},
}


def fill_in(manifest: dict[str, Any]) -> None:
    """Write what the defaulting webhook does, as far as a schema asks for it or a rule reads it."""
    for index, rule in items(manifest, "/spec/failurePolicy/rules"):
        if rule.get("name") in (None, "") and isinstance(rule, dict):
            rule["name"] = f"failurePolicyRule{index}"
    for _, job in items(manifest, JOBS):
        fill_in_job(job)


def fill_in_job(job: Mapping[str, Any]) -> None:
    spec, pod = at(job, "/template/spec"), at(job, POD)
    if isinstance(job, dict):
        fill(job, {"replicas": 1, "groupName": "default"})
    if isinstance(spec, dict) and spec.get("completionMode") is None:
        spec["completionMode"] = "Indexed"
    if isinstance(pod, dict) and pod.get("restartPolicy") in (None, ""):
        pod["restartPolicy"] = "OnFailure"
