"""What a Job says of its run, and what Jobs below other objects do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.objects.fields import mapping, whole
from trainwright.operators.operator import Around
from trainwright.operators.said import ANYTHING, Part, Said, count, seconds, stated


def said(manifest: Mapping[str, Any], around: Around) -> Said:
    part = part_of(manifest, "node", "/spec")
    limit = "/spec/backoffLimitPerIndex" if whole(manifest, "/spec/backoffLimitPerIndex") is not None else "/spec/backoffLimit"
    words = dict([*stated(manifest, {limit: "/restarts"}), *seconds(manifest, "/spec/activeDeadlineSeconds")])
    return Said("indexed-job", (part,), ANYTHING, words)


def part_of(manifest: Mapping[str, Any], role: str, spec: str) -> Part:
    """The pods of a Job: as many as must succeed, even if not all of them run at once."""
    pods = count(manifest, f"{spec}/completions", count(manifest, f"{spec}/parallelism"))
    return Part(role, max(pods, 1), f"{spec}/template", mapping(manifest, f"{spec}/template"))
