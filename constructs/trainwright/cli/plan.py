"""``trainwright plan``: one run in training terms."""

from __future__ import annotations

import json as encoder
from typing import Annotated

import typer

from trainwright.cli.session import (
    JsonOption,
    ProjectOption,
    RunArgument,
    no_such,
    open_project,
    output,
    run_file,
    show,
    stop,
    today,
)
from trainwright.project.build import build_run, demand_profile, refused_by_policies
from trainwright.project.load import load_sources_for
from trainwright.report.plan import compiled_data, default_places, difference_data, difference_lines, plan_lines
from trainwright.run import Run
from trainwright.target import TARGETS


def command(
    run: RunArgument,
    project: ProjectOption = None,
    target: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Plan it for another target, and show what differs from its own.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print every number and name of a run, with its reason."""
    sources = load_sources_for(open_project(project), run)
    file = sources.runs[run_file(sources, run)]
    demand_profile(sources, file.run.cluster)
    built = build_run(file, sources, today())
    if target is not None:
        other = build_run(file._replace(run=_for_target(file.run, target)), sources, today())
        if json:
            output(encoder.dumps(difference_data(built.compiled, other.compiled), indent=2))
            return
        output("\n".join(difference_lines(built.compiled, other.compiled)))
        show(other.compiled.findings)
        return
    if json:
        defaults = default_places(built.output.locator)
        output(encoder.dumps(compiled_data(built.compiled) | ({"defaults": defaults} if defaults else {}), indent=2))
        return
    if built.held:
        output(f"{run} is held as {run}-{built.identity}: {built.held.hold.why}. Today's inputs give:\n")
    output("\n".join(plan_lines(built.compiled, built.output.locator)))
    policies = (clash.finding for clash in refused_by_policies(sources, {run: built}, today()))
    show([*built.compiled.findings, *policies])


def _for_target(run: Run, target: str) -> Run:
    if target not in TARGETS:
        stop(no_such("target", target, TARGETS))
    return run.model_copy(update={"target": target})
