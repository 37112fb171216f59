"""What only a folder can say, since it must compile for it: warnings that stand, and estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from trainwright.compile import CompiledRun
from trainwright.findings import CompileError, Finding, Severity
from trainwright.project.build import build_run
from trainwright.project.load import RUN_SUFFIXES, Project, load_sources_for, name_of
from trainwright.project.record import Records, digest
from trainwright.project.status import last_records
from trainwright.report.facts import ENTRIES
from trainwright.review.model import Class, Review, RunReview
from trainwright.units import some

MOST_COMPILED = 25
"""Runs that are compiled for their estimates and warnings; of more, none."""


def with_head(review: Review, project: Project, today: date) -> Review:
    """The review of a folder with what its runs say today, and with notes on runs that a synth has not seen yet."""
    try:
        stale = _notes(list(_stale(project, last_records(project))))
    except CompileError as error:
        return replace(review, notes=(*review.notes, error.findings[0].message))
    starting = (Class.NEW, Class.RESUMED, Class.REPLACED)
    due = {run.run for run in review.runs if run.change in starting and run.after and not run.after.hold}
    if len(due) > MOST_COMPILED:
        return replace(review, notes=(*review.notes, *stale, f"{len(due)} runs start: no warnings and estimates are given"))
    runs = tuple(_compiled(run, project, today) if run.run in due else run for run in review.runs)
    return replace(review, runs=runs, notes=(*review.notes, *stale))


def _compiled(run: RunReview, project: Project, today: date) -> RunReview:
    try:
        sources = load_sources_for(project, run.run)
        compiled = build_run(sources.runs[run.run], sources, today).compiled
    except CompileError as error:
        return replace(run, findings=tuple(error.findings))
    except KeyError:
        return run
    return replace(run, findings=tuple(_warnings(compiled)), estimates=estimates_of(run, compiled))


def _warnings(compiled: CompiledRun) -> Iterator[Finding]:
    return (one for one in compiled.findings if one.severity is not Severity.INFO)


def estimates_of(run: RunReview, compiled: CompiledRun) -> dict[str, str]:
    """Those that may have changed: all of a run that is new, or that something else than its own file changes."""
    all_of_them = run.before is None or not run.before.facts or run.cause is not None
    changed = [f"{one.key}." for one in run.facts]
    due = (
        entry for entry in ENTRIES.values()
        if entry.follows and (all_of_them or any(key.startswith(f"{read}.") for key in changed for read in entry.follows))
    )
    rows = ((entry.called, entry.row(compiled)) for entry in due if entry.row)
    return {label: text for label, text in rows if text and not text.startswith("not known")}


def _stale(project: Project, records: Records) -> Iterator[str]:
    """Runs whose files are not those that the last synth compiled."""
    for path in sorted(project.runs.glob("*")):
        if path.suffix not in RUN_SUFFIXES or path.name.startswith("_"):
            continue
        name, mark = name_of(path), digest(path.read_bytes())
        several = (entry for run, entry in records.runs.items() if path.suffix == ".py" and run.startswith(f"{name}-"))
        if all(entry is None or entry.file != mark for entry in (records.runs.get(name), *several)):
            yield project.shown(path)


def _notes(stale: list[str]) -> tuple[str, ...]:
    if not stale:
        return ()
    return (f"{some(stale)} changed since the last synth, which is not in this review: run `trainwright synth`",)
