"""``trainwright diagnose``: why a run waits or failed."""

from __future__ import annotations

import json as encoder
from collections.abc import Sequence
from typing import Annotated

import typer

from trainwright.cli.session import Exit, JsonOption, ProjectOption, output, say
from trainwright.cli.snapshots import ContextOption, FromOption, RunsArgument, Seen, look
from trainwright.live.admission import Answer, admission, worst
from trainwright.live.case import Case
from trainwright.live.decides import Decider
from trainwright.live.diagnose import Diagnosis, diagnose, lines
from trainwright.live.runs import Expected, case_for, strangers, typed_for, written_for
from trainwright.units import counted


def command(
    runs: RunsArgument = None,
    file: FromOption = None,
    context: ContextOption = None,
    project: ProjectOption = None,
    json: JsonOption = False,
    before: Annotated[bool, typer.Option("--before", help="Say whether they would start now.")] = False,
) -> None:
    """Say why a run waits or failed, with the evidence, the line that decides it, and what to do next.

    A cause is named where all of its evidence is there; else it says "unknown", and what it may have been. Reads the cluster and
    changes nothing. Ends with 0 where nothing is wrong, and with 1 where a run waits or failed.
    """
    seen = look(project, runs or (), file, context)
    if before:
        _before(seen, json)
        return
    found = [_of(seen, case_for(seen.snapshot, run), run.record.facts) for run in seen.runs]
    if not runs:
        absent = [one for one in found if one.cause == "not-applied"]
        found = [one for one in found if one.cause != "not-applied"]
        found += [_of(seen, case, {}) for case in strangers(seen.snapshot, seen.every)]
    else:
        absent = []
    if json:
        output(seen.for_machines([one.data() for one in found]))
    else:
        _print(seen, found, absent)
    if any(not one.fine for one in found):
        raise typer.Exit(Exit.FINDINGS)


def _before(seen: Seen, json: bool) -> None:
    """The verdict of each run, and what it comes from."""
    found = {run.run: _answers(seen, run) for run in seen.runs}
    if json:
        rows = {name: {"verdict": worst(all_), "answers": [one._asdict() for one in all_]} for name, all_ in found.items()}
        output(encoder.dumps(rows, indent=2))
        return
    for name, answers in found.items():
        output("\n".join([f"{name}  {worst(answers)}", *(f"  {one.verdict}: {one.says}" for one in answers)]))


def _answers(seen: Seen, run: Expected) -> list[Answer]:
    if case_for(seen.snapshot, run).manifest is not None:
        return [
            Answer("cannot be said from here", f"it is in the cluster already: `trainwright diagnose {run.run}` says how it is")
        ]
    return admission(seen.snapshot, typed_for(seen.project, run))


def _of(seen: Seen, case: Case, stated: object) -> Diagnosis:
    known = next((run for run in seen.every if run.run == case.run), None)
    written = written_for(seen.project, known) if known and known.name == case.name else ()
    return diagnose(case, written, stated, Decider(seen.project, case.run, case.name) if known else None)  # type: ignore[arg-type]


def _print(seen: Seen, found: Sequence[Diagnosis], absent: Sequence[Diagnosis]) -> None:
    for one in found:
        output("\n".join(lines(one)))
    if not found:
        output("no run of the project is in the snapshot")
    if absent:
        say(f"{counted(len(absent), 'run')} of dist/ not in the cluster: {', '.join(one.case.run for one in absent)}")
    seen.say_what_lacks()
