"""Pieces of text that a review for a terminal and one for a pull request have in common."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.report.facts import shown
from trainwright.review.fields import FieldChange
from trainwright.review.model import Class, FactChange, Review, RunReview
from trainwright.units import counted


def summary(review: Review) -> str:
    """One line: how many runs of each class, and the GPUs that they hold."""
    if not review.runs:
        return "no run changes" if not review.shared else "no run changes its training"
    words = {
        Class.DATA_AT_RISK: "at risk of losing data", Class.REPLACED: "replaced", Class.NEW: "new",
        Class.RESUMED: "resumed", Class.PAUSED: "paused", Class.RETIRED: "retired",
        Class.HELD: "held", Class.COSMETIC: "changed without a restart",
    }
    counts = ", ".join(f"{number} {words[one]}" for one, number in review.counts().items())
    before, after = review.gpus
    gpus = f"{before:,} -> {after:,} GPUs" if before != after else counted(after, "GPU")
    return f"{counted(len(review.runs), 'run')}: {counts}; together {gpus}"


def fact(change: FactChange) -> str:
    """``learning rate: 2.0e-5 -> 1.0e-5``."""
    old, new = (None if value is None else shown(value) for value in (change.before, change.after))
    if old is None or new is None:
        return f"{change.label}: {new} (new)" if old is None else f"{change.label}: {old} (removed)"
    return f"{change.label}: {old} -> {new}"


def findings(run: RunReview) -> Iterator[tuple[str, str]]:
    """``new warning TW203`` and its message; where the head was not compiled, or a finding is gone, its title."""
    new = {one.code for one in run.codes if one.before is None}
    for one in run.findings:
        yield f"{'new ' if one.code in new else ''}{one.severity.value} {one.code}", one.message
    said = {one.code for one in run.findings} & new
    yield from ((change.grade, change.title) for change in run.codes if change.code not in said)


def field(change: FieldChange) -> str:
    """``Job llama-IDENTITY spec.completions: 4 -> 8``."""
    if not change.path:
        return f"{change.object}: {'new' if change.before is None else 'gone'}"
    old, new = ("(nothing)" if value is None else value for value in (change.before, change.after))
    return f"{change.object} {change.path}: {old} -> {new}"
