"""What JobSet's defaulting webhook fills in, and what rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items
from trainwright.objects.problem import Problem
from trainwright.operators.rows import block

JOBS, POD = "/spec/replicatedJobs", "/template/spec/template/spec"


def fill_in(manifest: dict[str, Any]) -> None:
    """Write what the defaulting webhook does, as far as a schema asks for it or a rule reads it."""
    for index, rule in items(manifest, "/spec/failurePolicy/rules"):
        if rule.get("name") in (None, "") and isinstance(rule, dict):
            rule["name"] = f"failurePolicyRule{index}"
    for _, job in items(manifest, JOBS):
        fill_in_job(job)


def fill_in_job(job: Mapping[str, Any]) -> None:
    spec, pod = at(job, "/template/spec"), at(job, POD)
    if isinstance(spec, dict) and spec.get("completionMode") is None:
        spec["completionMode"] = "Indexed"
    if isinstance(pod, dict) and pod.get("restartPolicy") in (None, ""):
        pod["restartPolicy"] = "OnFailure"


def job_template(template: object, _: object) -> Iterator[Problem]:
    """What the API server refuses in the Jobs that are made of a template."""
    for name in ("template", "counts"):
        yield from map(refused_later, block("job", name).problems(template))


def refused_later(problem: Problem) -> Problem:
    """What the API server refuses in a Job that a controller makes: the object is there, and none of its pods."""
    return replace(problem, code="TW711") if problem.code in ("TW704", "TW705") else problem
