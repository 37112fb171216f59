"""What every command needs: shared options, the project and its sources, output, and one way to fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from enum import IntEnum
from pathlib import Path, PurePath
from typing import Annotated, NoReturn

import typer

from trainwright.findings import CompileError, Finding, visible
from trainwright.project import Project, Sources, find_project, load_sources
from trainwright.report.finding import render_findings


class Exit(IntEnum):
    OK = 0
    FINDINGS = 1
    """Errors in runs or profiles, or ``dist/`` is not what they compile to."""
    USAGE = 2
    """Wrong options or arguments, or a name that does not exist."""
    ENVIRONMENT = 3
    """Something outside the project's files is missing or broken: Node, disk, permissions."""
    INTERNAL = 70
    """A defect of trainwright itself."""


ProjectOption = Annotated[
    Path | None, typer.Option("--project", metavar="DIR", help="The project's folder; default: the nearest one with charts/.")
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name of a run in charts/runs.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def output(text: str) -> None:
    """A result, on standard output."""
    print("\n".join(map(visible, text.split("\n"))))


def say(text: str) -> None:
    """Progress or a message, on standard error."""
    print("\n".join(map(visible, text.split("\n"))), file=sys.stderr)


def open_project(folder: Path | None) -> Project:
    try:
        return find_project(folder or Path.cwd())
    except CompileError as error:
        stop(f"{error.findings[0].message}: {error.findings[0].fix}")


def open_sources(folder: Path | None) -> tuple[Project, Sources]:
    project = open_project(folder)
    return project, load_sources(project)


def today() -> date:
    """The day, the same in every time zone, that waivers are compared with.

    SOURCE_DATE_EPOCH sets it for a build that must not move with the clock.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return datetime.now(UTC).date()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).date()
    except (ValueError, OverflowError):
        stop(f"SOURCE_DATE_EPOCH is {epoch!r}, not a number of seconds since 1970")


def show(findings: Sequence[Finding]) -> None:
    """Findings, on standard error; in colour on a terminal, and never wrapped, so that they can be searched."""
    if findings:
        from rich.console import Console

        render_findings(findings, Console(stderr=True, highlight=False, soft_wrap=True))


def fail(findings: Sequence[Finding]) -> NoReturn:
    """Print findings and end with FINDINGS."""
    show(findings)
    raise typer.Exit(Exit.FINDINGS)


def stop(message: str, code: Exit = Exit.USAGE) -> NoReturn:
    """Print one sentence and end."""
    say(message)
    raise typer.Exit(code)


def run_file(sources: Sources, name: str) -> str:
    """A run's name, checked; a name that does not exist ends the command with the ones that do."""
    if name in sources.runs:
        return name
    broken = [
        finding
        for finding in sources.findings
        if finding.where.file and Path(finding.where.file).stem.replace("_", "-") == name
    ]
    if broken:
        fail(broken)
    from trainwright.model import closest

    near = closest(PurePath(name).stem.replace("_", "-"), list(sources.runs))
    hint = f"did you mean {near}? " if near else ""
    stop(f"there is no run {name}; {hint}runs: {', '.join(sources.runs) or 'none'}")
