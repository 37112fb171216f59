"""Jobs: what no schema can say of them, since two values decide it (pkg/apis/batch/validation/validation.go).

The API server's own defaults come first (pkg/apis/batch/v1/defaults.go).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainwright.findings.locate import at
from trainwright.validate.fields import number, text
from trainwright.validate.problem import Problem

POLICY, LIMIT = "/spec/podFailurePolicy", "/spec/backoffLimitPerIndex"


def job_problems(manifest: Any) -> Iterator[Problem]:
    """What the API server refuses in a Job's spec, or in that of a template of one, after its own defaults."""
    restart = text(manifest, "/spec/template/spec/restartPolicy")
    if restart not in ("Never", "OnFailure"):
        message = f"the pods of a Job cannot have restartPolicy {restart or 'Always, which is the default'}"
        yield Problem("TW705", "/spec/template/spec/restartPolicy", message, "write Never or OnFailure")
    if at(manifest, POLICY) is not None and restart == "OnFailure":
        yield Problem("TW705", POLICY, "a podFailurePolicy needs pods with restartPolicy Never", "write Never")
    yield from _indexes(manifest)


def _indexed(manifest: Any) -> bool:
    return text(manifest, "/spec/completionMode") == "Indexed"


def _indexes(manifest: Any) -> Iterator[Problem]:
    completions, parallelism = (at(manifest, f"/spec/{field}") for field in ("completions", "parallelism"))
    if not _indexed(manifest):
        if at(manifest, LIMIT) is not None:
            yield Problem("TW705", LIMIT, "only an Indexed Job has indexes", "add `completionMode: Indexed`")
    elif completions is None and parallelism is not None:  # without both, both are 1
        yield Problem("TW704", "/spec/completions", "an Indexed Job has no `completions`", "add `completions:`")
    elif parallelism is None and number(manifest, "/spec/completions", 1) > 1:
        message = f"the {completions} pods of this Indexed Job run one after another: without `parallelism` it is 1"
        fix = f"add `parallelism: {completions}` where the pods wait for each other, as ranks do; else `parallelism: 1`"
        yield Problem("TW714", "/spec/completions", message, fix)
