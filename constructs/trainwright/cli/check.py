"""``trainwright check``: is ``dist/`` what the runs compile to?"""

from __future__ import annotations

from typing import Annotated

import typer

from trainwright.cli.session import ProjectOption, fail, open_sources, output, run_file, show, today
from trainwright.findings import Severity
from trainwright.project import build_project, compare, compare_runs, last_records, obstacles


def command(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help="Only these runs; default: all.")] = None,
    project: ProjectOption = None,
) -> None:
    """Say whether dist/ is what the runs compile to.

    Compiles in memory and compares with dist/ and the records, without Node. Ends with 1 where a run has errors, dist/ is stale,
    incomplete or edited by hand, or a run would restart unasked.
    """
    where, sources = open_sources(project)
    for name in runs or ():
        run_file(sources, name)
    records = last_records(where)
    build = build_project(sources, today(), records)
    ways = obstacles(where, build, records)
    if runs:
        found = [finding for name in runs if name in build.runs for finding in build.runs[name].compiled.findings]
        found += [*ways.of(runs), *compare_runs(where, build, records, runs)]
        order = f"{', '.join(runs)}: in order"
    else:
        found = [*build.findings, *ways.all, *compare(where, build, records)]
        held = [name for name, built in build.runs.items() if built.held]
        order = f"{len(build.runs)} runs and {len(build.foundations)} foundations are in order"
        order += f"; held: {', '.join(held)}" if held else ""
    findings = list(dict.fromkeys(found))  # errors of the build are in the way of a synth too
    if any(finding.severity is Severity.ERROR for finding in findings):
        fail(findings)
    show(findings)
    output(order)
