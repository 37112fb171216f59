"""What a Job says of its run, and what Jobs below other objects do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, text, whole
from trainwright.operators.operator import Around
from trainwright.operators.said import ANYTHING, Part, Said, count, seconds, stated


def said(manifest: Mapping[str, Any], around: Around) -> Said:
    part = part_of(manifest, "node", "/spec")
    limit = "/spec/backoffLimitPerIndex" if whole(manifest, "/spec/backoffLimitPerIndex") is not None else "/spec/backoffLimit"
    words = dict([*stated(manifest, {limit: "/restarts"}), *seconds(manifest, "/spec/activeDeadlineSeconds"),
                  *exit_codes(manifest, "/spec")])  # fmt: skip
    return Said("indexed-job", (part,), ANYTHING, words)


def part_of(manifest: Mapping[str, Any], role: str, spec: str) -> Part:
    """The pods of a Job: as many as must succeed, even if not all of them run at once."""
    pods = count(manifest, f"{spec}/completions", count(manifest, f"{spec}/parallelism"))
    return Part(role, max(pods, 1), f"{spec}/template", mapping(manifest, f"{spec}/template"))


_WHICH = {"In": "codes", "NotIn": "all_but"}


def exit_codes(
    manifest: Mapping[str, Any], spec: str, failed: str = "fail"
) -> Iterator[tuple[str, tuple[list[dict[str, Any]], str]]]:
    """What the policy of a Job says of exit codes, as the run's ``exit_codes``; whose they are by the container's name there.
    ``failed`` is what it means that the Job has failed.
    """
    place, means = f"{spec}/podFailurePolicy/rules", {"FailJob": failed, "Ignore": "ignore", "Count": "count"}
    said = [
        {
            "means": means[text(rule, "/action")],
            _WHICH[text(rule, "/onExitCodes/operator")]: _ranges(at(rule, "/onExitCodes/values")),
            **({"container": name} if (name := text(rule, "/onExitCodes/containerName")) else {}),
        }
        for _, rule in items(manifest, place)
        if text(rule, "/action") in means and text(rule, "/onExitCodes/operator") in _WHICH
    ]
    if said:
        yield "/exit_codes", (said, place)


def _ranges(values: Any) -> list[int | str]:
    """Codes that follow each other as one range."""
    numbers = sorted({one for one in values if isinstance(one, int)} if isinstance(values, list) else ())
    starts = [one for one in numbers if one - 1 not in numbers]
    ends = [one for one in numbers if one + 1 not in numbers]
    found = zip(starts, ends, strict=True)
    return [each for first, last in found for each in ([f"{first}-{last}"] if last > first + 1 else sorted({first, last}))]
