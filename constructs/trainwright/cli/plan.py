"""``trainwright plan``: one run in training terms."""

from __future__ import annotations

import json as encoder
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from trainwright.cli.session import (
    Exit,
    JsonOption,
    ProjectOption,
    QuietOption,
    RunArgument,
    fail,
    for_target,
    open_project,
    output,
    run_file,
    show,
    today,
)
from trainwright.compile import PlannedError
from trainwright.findings import CompileError, Finding, Severity
from trainwright.plan import Plan
from trainwright.project.build import build_run, demand_profile
from trainwright.project.clashes import refused_by_policies
from trainwright.project.load import load_sources_for
from trainwright.project.status import last_records
from trainwright.report.finding import to_json
from trainwright.report.plan import compiled_data, default_places, difference_data, difference_lines, plan_data, plan_lines


def command(
    run: RunArgument,
    project: ProjectOption = None,
    target: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Plan it for another target, and show what differs from its own.")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Print every number and name of a run, with its reason.

    With --json also beside an error: what was planned, as far as it came, and `findings`.
    """

    def refuse(findings: Sequence[Finding], plan: Plan | None = None) -> NoReturn:
        if not json:
            fail(findings)
        output(encoder.dumps((plan_data(plan) if plan else {}) | {"findings": to_json(findings)}, indent=2))
        raise typer.Exit(Exit.FINDINGS)

    opened = open_project(project)
    sources = load_sources_for(opened, run)
    file = sources.runs[run_file(sources, run, refuse)]
    try:
        demand_profile(sources, file.run.cluster)
        built = build_run(file, sources, today())
        other = target and build_run(file._replace(run=for_target(file.run, target)), sources, today())
    except CompileError as error:
        refuse(error.findings, error.plan if isinstance(error, PlannedError) else None)
    if other:
        if json:
            output(encoder.dumps(difference_data(built.compiled, other.compiled), indent=2))
            return
        if not quiet:
            output("\n".join(difference_lines(built.compiled, other.compiled)))
            show(other.compiled.findings)
        return
    if json:
        defaults = default_places(built.output.locator)
        output(encoder.dumps(compiled_data(built.compiled) | ({"defaults": defaults} if defaults else {}), indent=2))
        return
    policies = [clash.finding for clash in refused_by_policies(sources, {run: built}, today())]
    if quiet:
        show([finding for finding in policies if finding.severity is Severity.ERROR])
        return
    if built.held:
        output(f"{run} is held as {run}-{built.identity}: {built.held.hold.why}. Today's inputs give:\n")
    records = last_records(opened).runs
    others = [one.facts for name, one in records.items() if name != run and one.state == "active"]
    output("\n".join(plan_lines(built.compiled, built.output.locator, others)))
    show([*built.compiled.findings, *policies])
