"""``trainwright check``: is ``dist/`` what the runs compile to?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Annotated

import typer

from trainwright.cli.session import (
    Detail,
    FormatOption,
    ProjectOption,
    QuietOption,
    VerboseOption,
    detail,
    fail,
    open_sources,
    output,
    run_file,
    show,
    today,
    watched,
    write_findings,
)
from trainwright.findings import Finding, Severity
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.processors import over_processors
from trainwright.project.record import ARGO_CD
from trainwright.project.scope import obstacles
from trainwright.project.status import compare, compare_runs, last_records, told_before
from trainwright.report.finding import by_cause
from trainwright.report.formats import Format
from trainwright.units import counted


def command(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help="Only these runs; default: all.")] = None,
    project: ProjectOption = None,
    style: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say whether dist/ is what the runs compile to.

    Compiles in memory and compares with dist/ and the records, without Node. Ends with 1 where a run has errors, dist/ is stale,
    incomplete or edited by hand, or a run would restart unasked. Warnings that the records of unedited runs have are counted;
    -v, or the names of runs, show them.
    """
    wanted = detail(quiet, verbose)
    where, sources = open_sources(project)
    for name in runs or ():
        run_file(sources, name)
    records = last_records(where)
    build = build_project(sources, today(), records, watched, over_processors)
    ways = obstacles(where, build, records)
    if runs:
        found = [finding for name in runs if name in build.runs for finding in build.runs[name].compiled.findings]
        files = {build.runs[name].file.name for name in runs if name in build.runs}
        found += [finding for finding in build.findings if finding.where.file in files]
        found += [*ways.of(runs), *compare_runs(where, build, records, runs)]
        subject = ", ".join(runs)
    else:
        found = [*build.findings, *ways.all, *compare(where, build, records)]
        foundations = sum(not key.startswith(ARGO_CD) for key in build.foundations)
        subject = f"{counted(len(build.runs), 'run')} and {counted(foundations, 'foundation')}"
    findings = list(dict.fromkeys(found))  # errors of the build are in the way of a synth too
    shown = [finding for finding in findings if wanted.shows(finding.severity)]
    told = told_before(build, records) & set(shown) if wanted is Detail.NORMAL and not runs and style is Format.TEXT else set()
    shown = [finding for finding in shown if finding not in told]
    if style is not Format.TEXT:
        write_findings(shown, style)
        return
    if any(finding.severity is Severity.ERROR for finding in findings):
        fail(shown)
    show(shown)
    if wanted is not Detail.QUIET:
        output(f"{subject}: in order{_remarks(build, findings, told, wanted)}")


def _remarks(build: Build, findings: list[Finding], told: Collection[Finding], wanted: Detail) -> str:
    """Runs that are held, and how many findings there are besides."""
    held = [name for name, built in build.runs.items() if built.held]
    notes = Counter(finding.severity for finding in by_cause(findings))[Severity.INFO]
    hidden = notes if not wanted.shows(Severity.INFO) else 0
    warnings = len(by_cause(list(told)))
    known = f"{counted(warnings, 'warning')} as recorded" if warnings else ""
    unsaid = " and ".join(part for part in (known, counted(hidden, "note") if hidden else "") if part)
    parts = [f"held: {', '.join(held)}" if held else "", f"{unsaid}, shown by -v" if unsaid else ""]
    return "".join(f"; {part}" for part in parts if part)
