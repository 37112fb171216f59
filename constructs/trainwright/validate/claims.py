"""Claims that a JobSet makes, and that go with it: ``volumeClaimPolicies`` (sigs.k8s.io/jobset, jobset_types.go; since 0.12)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.manifest.kinds import GroupKind
from trainwright.objects.fields import items, text
from trainwright.objects.problem import Problem

_SPECS = {
    GroupKind("jobset.x-k8s.io", "JobSet"): "/spec",
    GroupKind("trainer.kubeflow.org", "TrainingRuntime"): "/spec/template/spec",
    GroupKind("trainer.kubeflow.org", "ClusterTrainingRuntime"): "/spec/template/spec",
}
"""Kind -> where the spec of a JobSet is in it."""

_KEPT = re.compile(r"ckpt|checkpoint|snapshot|data|corpus|token|model|weight|output|result", re.IGNORECASE)
_SCRATCH = re.compile(r"scratch|cache|spill|\b(te?mp|shm|buffers?)\b", re.IGNORECASE)
"""Words in the name of a claim or in a path where it is mounted. What is for scratch may go; so may what somebody says goes."""


def claims_that_go(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Claims with checkpoints or data, or with nobody knows what, which the garbage collector deletes with the object."""
    spec = _SPECS.get(GroupKind.of(manifest))
    policies = items(manifest, f"{spec}/volumeClaimPolicies") if spec else ()
    for index, policy in policies:
        place, stated = f"{spec}/volumeClaimPolicies/{index}", text(policy, "/retentionPolicy/whenDeleted")
        if stated == "Retain":
            continue
        for number, template in items(policy, "/templates"):
            name = text(template, "/metadata/name")
            told = " ".join([name, *_paths(manifest, f"{spec}/replicatedJobs", name)])
            if _SCRATCH.search(told) or (stated and not _KEPT.search(told)):
                continue
            where = "/retentionPolicy/whenDeleted" if stated else f"/templates/{number}/metadata/name"
            because = "as whenDeleted says" if stated else "since whenDeleted is Delete where it is not written"
            message = f"claim {name} is deleted together with the JobSet, {because}: checkpoints and data in it are lost"
            yield Problem("TW716", f"{place}{where}", message, _FIX + ("" if stated else "; or Delete, if it is scratch"))


_FIX = "write `retentionPolicy: {whenDeleted: Retain}` in its policy, or mount a claim that exists"


def _paths(manifest: Mapping[str, Any], jobs: str, name: str) -> Iterator[str]:
    """Where containers mount a claim."""
    for _, job in items(manifest, jobs):
        for listed in ("initContainers", "containers"):
            for _, container in items(job, f"/template/spec/template/spec/{listed}"):
                for _, mount in items(container, "/volumeMounts"):
                    if text(mount, "/name") == name:
                        yield text(mount, "/mountPath")
