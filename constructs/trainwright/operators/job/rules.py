"""Jobs: what no schema can say of them, since two values decide it (pkg/apis/batch/validation/validation.go).

The API server's own defaults come first (pkg/apis/batch/v1/defaults.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, number, text, whole
from trainwright.objects.metadata import LONGEST_LABEL, not_a_label
from trainwright.objects.problem import Problem, refused, unknown_choice

RESTART, REPLACEMENT = "/spec/template/spec/restartPolicy", "/spec/podReplacementPolicy"
POLICY, SUCCESS = "/spec/podFailurePolicy", "/spec/successPolicy"
LIMIT, FAILED = "/spec/backoffLimitPerIndex", "/spec/maxFailedIndexes"
_GENERATED = re.compile(r"(batch\.kubernetes\.io/)?(controller-uid|job-name)")
_INDEXED, _PER_INDEX = "add `completionMode: Indexed`", "add `backoffLimitPerIndex:`"


def named_job_problems(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """What its name and its selector add, for a Job that a user makes: each pod has the name in a label, or in its host name."""
    name, indexed = text(manifest, "/metadata/name"), text(manifest, "/spec/completionMode") == "Indexed"
    host = f"{name}-{max(number(manifest, '/spec/completions', 1) - 1, 0)}"
    reason, manual = not_a_label(host), at(manifest, "/spec/manualSelector") is True
    chosen = [key for key in mapping(manifest, "/spec/selector/matchLabels") if not _GENERATED.fullmatch(key)]
    yield from refused(
        (len(name) > LONGEST_LABEL, "/metadata/name",
         f"the pods have the Job's name as a label, and it has {len(name)} characters", f"write at most {LONGEST_LABEL}"),
        (indexed and bool(reason) and len(name) <= LONGEST_LABEL, "/metadata/name",
         f"a pod of this Indexed Job would have the host name {host}, which {reason}", "choose a shorter name, without dots"),
        (bool(chosen) and not manual, "/spec/selector", "the selector of a Job is generated, and this one is not", "remove it"),
    )  # fmt: skip


def job_problems(manifest: Any) -> Iterator[Problem]:
    """What the API server refuses in a Job's spec, or in that of a template of one, after its own defaults."""
    restart, indexed = text(manifest, RESTART), text(manifest, "/spec/completionMode") == "Indexed"
    policy, success, limit, failed = (at(manifest, place) is not None for place in (POLICY, SUCCESS, LIMIT, FAILED))
    completions, parallelism = (at(manifest, f"/spec/{field}") for field in ("completions", "parallelism"))
    yield from refused(
        (restart not in ("Never", "OnFailure"), RESTART,
         f"the pods of a Job cannot have restartPolicy {restart or 'Always, which is the default'}",
         unknown_choice(RESTART, restart, ("Never", "OnFailure")).fix),
        (policy and restart == "OnFailure", POLICY, "a podFailurePolicy needs pods with restartPolicy Never",
         "write `restartPolicy: Never` in the pod's spec"),
        (policy and text(manifest, REPLACEMENT, "Failed") != "Failed", REPLACEMENT,
         "beside a podFailurePolicy a pod is replaced once it has failed", "write Failed"),
        (limit and not indexed, LIMIT, "only an Indexed Job has indexes", _INDEXED),
        (success and not indexed, SUCCESS, "only an Indexed Job has a successPolicy", _INDEXED),
        (failed and not limit, FAILED, "maxFailedIndexes needs backoffLimitPerIndex", _PER_INDEX),
    )  # fmt: skip
    yield from _failure_rules(manifest)
    for index, rule in items(manifest, f"{SUCCESS}/rules"):
        count, most = whole(rule, "/succeededCount", 0), number(manifest, "/spec/completions", 2**31)
        place, message = f"{SUCCESS}/rules/{index}/succeededCount", f"{count} indexes cannot succeed: there are {most}"
        yield from refused(((count or 0) > most, place, message, f"write at most {most}"))
    if indexed and completions is None and parallelism is not None:  # without both, both are 1
        yield Problem("TW704", "/spec/completions", "an Indexed Job has no `completions`", "add `completions:`")
    if indexed and parallelism is None and number(manifest, "/spec/completions", 1) > 1:
        message = f"the {completions} pods of this Indexed Job run one after another: without `parallelism` it is 1"
        fix = f"add `parallelism: {completions}` where the pods wait for each other, as ranks do; else `parallelism: 1`"
        yield Problem("TW714", "/spec/completions", message, fix)


def _failure_rules(manifest: Any) -> Iterator[Problem]:
    pod = "/spec/template/spec"
    names = [text(one, "/name") for field in ("containers", "initContainers") for _, one in items(manifest, f"{pod}/{field}")]
    for index, rule in items(manifest, f"{POLICY}/rules"):
        place, both = f"{POLICY}/rules/{index}", bool(rule.get("onExitCodes")) and bool(rule.get("onPodConditions"))
        container, codes = text(rule, "/onExitCodes/containerName"), at(rule, "/onExitCodes/values")
        known = [code for code in codes if isinstance(code, int)] if isinstance(codes, list) else []
        unordered = any(earlier >= later for earlier, later in pairwise(known))
        yield from refused(
            (both, place, "a rule asks for exit codes or for conditions of the pod, and this one for both", "write two rules"),
            (text(rule, "/action") == "FailIndex" and at(manifest, LIMIT) is None, f"{place}/action",
             "FailIndex needs backoffLimitPerIndex", _PER_INDEX),
            (bool(container) and container not in names, f"{place}/onExitCodes/containerName",
             f"the pods have no container {container}", f"name one of: {', '.join(names)}"),
            (unordered, f"{place}/onExitCodes/values", "exit codes stand in ascending order, each once",
             f"write {sorted(set(known))}"),
            (0 in known and text(rule, "/onExitCodes/operator") == "In", f"{place}/onExitCodes/values",
             "exit code 0 is no failure", "remove it"),
        )  # fmt: skip
