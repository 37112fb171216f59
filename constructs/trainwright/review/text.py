"""A review for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.review.fields import FieldChange
from trainwright.review.lines import fact, field, findings, summary
from trainwright.review.model import Review, RunReview
from trainwright.units import some

MOST_FIELDS = 20
"""Kubernetes fields of one run, or of one foundation, that are listed."""


def text(review: Review) -> str:
    """What happens to each run, in training terms, then what changes for several of them, then what is not known."""
    return "\n".join(_lines(review))


def _lines(review: Review) -> Iterator[str]:
    yield f"{review.base} -> {review.head}: {summary(review)}"
    for run in review.runs:
        yield ""
        yield from _run(run)
    for shared in review.shared:
        yield ""
        yield shared.title + (f": touches {some(shared.runs)}" if shared.runs else "")
        yield from (f"  {part}" for part in (f"DATA AT RISK: {shared.risk}" if shared.risk else "", shared.effect) if part)
        yield from (f"  {fact(change)}" for change in shared.facts)
        yield from _fields(shared.fields)
    if review.notes:
        yield ""
        yield from (f"note: {note}" for note in review.notes)


def _run(run: RunReview) -> Iterator[str]:
    yield f"{run.run}: {run.change.words}; training {run.training}"
    yield f"  {run.outcome}"
    if run.cause:
        yield f"  its own file is the same; the cause: {run.cause}"
    yield from (f"  {fact(change)}" for change in run.facts)
    yield from (f"  {label} (estimate): {said}" for label, said in run.estimates.items())
    yield from (f"  {grade}: {said}" for grade, said in findings(run))
    yield from _fields(run.fields)


def _fields(fields: Sequence[FieldChange]) -> Iterator[str]:
    if fields:
        yield f"  Kubernetes fields ({len(fields)}):"
        yield from (f"    {field(change)}" for change in fields[:MOST_FIELDS])
        if len(fields) > MOST_FIELDS:
            yield f"    and {len(fields) - MOST_FIELDS} more: --format json has all"
