"""A review as a comment of a pull request: a table of the runs, what changes of each, and Kubernetes fields folded below.

Text of runs and profiles stands in code spans and fences, so that nothing in it is a link, a mention or HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainwright.report.facts import shown
from trainwright.review.fields import FieldChange
from trainwright.review.lines import field, findings, summary
from trainwright.review.model import FactChange, Review, RunReview, SharedReview
from trainwright.units import some

LIMIT = 65_536
"""Characters that GitHub takes in a comment; we count bytes of UTF-8, of which there are no fewer."""
RESERVE = 600
"""Bytes for saying what was cut."""
MARKER = "<!-- trainwright diff -->"
"""The first line, by which a job finds the comment that it wrote before."""


def markdown(review: Review, limit: int = LIMIT) -> str:
    """The comment; where it would be too long, the folded fields of some runs go first, then whole runs."""
    sides = f"this is what {_code(review.head)} does where it is merged and applied, compared with {_code(review.base)}"
    head = f"{MARKER}\n## Trainwright: {summary(review)}\n\nNothing has happened yet: {sides}.\n"
    notes = "".join(f"\n> **Note:** {_code(note)}\n" for note in review.notes[:20])
    words = _words(review)
    budget = limit - RESERVE - _size(head) - _size(notes) - _size(words)
    rows, budget = _fit([_row(run) for run in review.runs], budget)
    parts = [*map(_run, review.runs), *map(_shared, review.shared)]
    fields = [*(run.fields for run in review.runs), *(one.fields for one in review.shared)]
    folds = [*map(_fold, fields)]
    kept, budget = _fit(parts, budget - _size(TABLE))
    folded, _ = _fit(folds, budget)
    table = f"{TABLE}{''.join(row or '' for row in rows)}" if review.runs else ""
    body = "".join(f"{part}{fold or ''}" for part, fold in zip(kept, folded, strict=True) if part)
    return head + notes + table + body + _cut(rows, kept, [fold for fold, one in zip(folded, folds, strict=True) if one]) + words


TABLE = "\n| run | what happens | its training | GPUs |\n|---|---|---|---|\n"


def _fit(parts: Iterable[str], budget: int) -> tuple[list[str | None], int]:
    """Parts as long as there is room, None for others, and the room that is left."""
    kept: list[str | None] = []
    for part in parts:
        fits = _size(part) <= budget
        kept.append(part if fits else None)
        budget -= _size(part) if fits else 0
    return kept, budget


def _cut(*lists: Sequence[str | None]) -> str:
    """What was left out."""
    names = ("rows of the table", "sections", "lists of Kubernetes fields")
    cut = [f"{number} {name}" for name, parts in zip(names, lists, strict=True) if (number := sum(one is None for one in parts))]
    said = f"\n**Cut, since a comment takes {LIMIT:,} characters:** {', '.join(cut)}. `trainwright diff` prints all.\n"
    return said if cut else ""


def _row(run: RunReview) -> str:
    before, after = run.gpus
    gpus = str(after) if before == after else f"{before} → {after}"
    return f"| {_code(run.run)} | **{run.change.words}** | {run.training} | {gpus if run.before or run.after else ''} |\n"


def _run(run: RunReview) -> str:
    lines = [f"\n### {_code(run.run)}: {run.change.words}\n\n{_code(run.outcome)}\n"]
    if run.cause:
        lines.append(f"\nIts own file is the same. The cause: {_code(run.cause)}.\n")
    lines += _facts(run.facts)
    lines += [f"\n- {label}, as estimated for the new plan: {_code(said)}" for label, said in run.estimates.items()]
    lines += [f"\n- {_code(grade)}: {_code(said)}" for grade, said in findings(run)]
    return "".join(lines).rstrip("\n") + "\n"


def _shared(shared: SharedReview) -> str:
    touched = f"\nTouches {_code(some(shared.runs))}.\n" if shared.runs else ""
    risk = f"\n**Data at risk:** {_code(shared.risk)}\n" if shared.risk else ""
    effect = f"\n{_code(shared.effect)}\n" if shared.effect else ""
    return f"\n### {_code(shared.title)}\n{effect}{touched}{risk}{''.join(_facts(shared.facts))}"


def _words(review: Review) -> str:
    """What the words of this comment mean, folded, for those who read their first one."""
    if not review.runs:
        return ""
    lines = [f"- **{one.words}**: {one.meaning}." for one in review.counts()]
    lines.append(
        "- **lineage**: the checkpoints of one model, data and kind of optimizer: after an edit of anything else, the rate "
        "included, training resumes from them. Of a script or command only its author knows what it resumes from: each edit that "
        "restarts it gives it another directory, unless its file names one."
    )
    lines.append("- **IDENTITY**: the hash in the names of a job's objects. A job with another hash is another job.")
    return f"\n<details><summary>What these words mean</summary>\n\n{chr(10).join(lines)}\n</details>\n"


def _facts(changes: Sequence[FactChange]) -> Iterator[str]:
    if changes:
        yield "\n| | before | after |\n|---|---|---|\n"
        for one in changes:
            yield f"| {_code(one.label)} | {_value(one.before)} | {_value(one.after)} |\n"


def _value(value: str | float | bool | None) -> str:
    return "" if value is None else _code(shown(value))


def _fold(fields: Sequence[FieldChange]) -> str:
    """Folded, in a fence that no value can close."""
    if not fields:
        return ""
    lines = "\n".join(field(one) for one in fields).replace("`", "'")
    return f"\n<details><summary>Kubernetes fields ({len(fields)})</summary>\n\n```text\n{lines}\n```\n</details>\n"


def _code(text: str) -> str:
    """As a code span in a row of a table: without what ends either."""
    plain = "".join(one if one.isprintable() else " " for one in text)
    return f"`{plain.replace('`', chr(39)).replace('|', chr(0xA6))}`"


def _size(text: str) -> int:
    return len(text.encode())
