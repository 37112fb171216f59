"""A review for a program, as plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwright.report.finding import to_json
from trainwright.review.fields import FieldChange
from trainwright.review.model import FactChange, Review, RunReview, SharedReview


def data(review: Review) -> dict[str, Any]:
    """``base``, ``head``, ``counts``, ``gpus``, ``runs``, ``shared`` and ``notes``."""
    return {
        "base": review.base,
        "head": review.head,
        "counts": {one.value: number for one, number in review.counts().items()},
        "gpus": _change(*review.gpus),
        "runs": [_run(run) for run in review.runs],
        "shared": [_shared(one) for one in review.shared],
        "notes": list(review.notes),
    }


def _run(run: RunReview) -> dict[str, Any]:
    identities = (one.identity if one else None for one in (run.before, run.after))
    return {
        "run": run.run,
        "class": run.change.value,
        "identity": _change(*identities),
        "outcome": run.outcome,
        "training": run.training,
        "cause": run.cause,
        "gpus": _change(*run.gpus),
        "facts": _facts(run.facts),
        "fields": _fields(run.fields),
        "findings": to_json(run.findings),
        "codes": [{"code": one.code, "title": one.title, **_change(one.before, one.after)} for one in run.codes],
        "estimates": dict(run.estimates),
    }


def _shared(shared: SharedReview) -> dict[str, Any]:
    return {
        "title": shared.title, "runs": list(shared.runs), "risk": shared.risk or None,
        "effect": shared.effect or None,
        "facts": _facts(shared.facts), "fields": _fields(shared.fields),
    }


def _facts(changes: Sequence[FactChange]) -> list[dict[str, Any]]:
    return [{"key": one.key, "label": one.label, **_change(one.before, one.after)} for one in changes]


def _fields(changes: Sequence[FieldChange]) -> list[dict[str, Any]]:
    return [{"object": one.object, "path": one.path, **_change(one.before, one.after)} for one in changes]


def _change(before: object, after: object) -> dict[str, object]:
    return {"before": before, "after": after}
