"""``trainwright plan``: one run in training's words."""

from __future__ import annotations

import json as encoder

from trainwright.cli.options import JsonOption, ProjectOption, RunArgument
from trainwright.cli.session import open_project, output, run_file, show, today
from trainwright.project import build_run
from trainwright.project.load import load_sources_for
from trainwright.report.finding import to_json
from trainwright.report.plan import plan_data, plan_lines


def command(run: RunArgument, project: ProjectOption = None, json: JsonOption = False) -> None:
    """Print every number and name of a run, with its reason."""
    sources = load_sources_for(open_project(project), run)
    built = build_run(sources.runs[run_file(sources, run)], sources, today())
    compiled = built.compiled
    if json:
        output(encoder.dumps(plan_data(compiled.plan) | {"findings": to_json(compiled.findings)}, indent=2))
        return
    output("\n".join(plan_lines(compiled.plan, compiled.findings, compiled.overridden)))
    show(compiled.findings)
