"""What the API server writes into a Job (kubernetes, pkg/apis/batch/v1/defaults.go, and pkg/registry/batch/job/strategy.go)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trainwright.objects.stored import fill, fill_in_pod
from trainwright.operators.operator import Tree, uid

BACKOFF_LIMIT, NO_BACKOFF_LIMIT = 6, 2**31 - 1
"""Retries of all pods together where a Job states none; where it states some for each index, only those count."""


def defaults(manifest: Mapping[str, Any]) -> Tree:
    stored = selected(manifest)
    fill_in_pod(stored["spec"]["template"]["spec"])
    return stored


def selected_labels(name: str, owner: str) -> dict[str, str]:
    """What every pod of a Job has.

    Args:
        name: of the Job.
        owner: its uid.
    """
    both = {"controller-uid": owner, "job-name": name}
    return both | {f"batch.kubernetes.io/{key}": value for key, value in both.items()}


def selected(manifest: Mapping[str, Any]) -> Tree:
    """With the defaults of its own fields, and the labels by which it finds its pods; those of the pods come with the pods."""
    stored = copy.deepcopy(dict(manifest))
    spec, name, owner = stored["spec"], stored["metadata"]["name"], uid(manifest)
    if not spec.keys() & {"completions", "parallelism"}:
        spec["completions"] = 1
    fill(spec, {
        "parallelism": 1, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False,
        "backoffLimit": NO_BACKOFF_LIMIT if "backoffLimitPerIndex" in spec else BACKOFF_LIMIT,
        "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
    })  # fmt: skip
    if not spec["manualSelector"]:
        spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": owner}})
        metadata = spec["template"].setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), **selected_labels(name, owner)}
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for condition in rule.get("onPodConditions", ()):
            condition.setdefault("status", "True")
    return stored
