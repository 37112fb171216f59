"""``trainwright diff``: what a change does to training runs."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.session import Exit, ProjectOption, open_project, output, stop, today
from trainwright.project.load import Project
from trainwright.review import Class, Review, Side, folder_side, git_side, merge_base, review
from trainwright.review.data import data
from trainwright.review.head import with_head
from trainwright.review.markdown import markdown
from trainwright.review.side import SideError
from trainwright.review.text import text


class Format(StrEnum):
    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def command(
    base: Annotated[
        str | None, typer.Argument(metavar="[BASE]", help="A git revision or a folder; default: where this branch left main.")
    ] = None,
    head: Annotated[
        str | None, typer.Argument(metavar="[HEAD]", help="A git revision or a folder; default: the project as it is now.")
    ] = None,
    style: Annotated[Format, typer.Option("--format", help="How to say it.")] = Format.TEXT,
    fail_on: Annotated[
        list[Class] | None, typer.Option("--fail-on", help="End with 1 where a run is of this class; may be repeated.")
    ] = None,
    project: ProjectOption = None,
) -> None:
    """Say what a change does to training runs, in training terms.

    Compares the records and dist/ of both sides; nothing of BASE is compiled or run. Ends with 0, or with 1 where a run is
    of a class that --fail-on names.
    """
    where = open_project(project)
    try:
        old = git_side(where.root, merge_base(where.root)) if base is None else _side(where, base)
        new = folder_side(where.root, "the working tree") if head is None else _side(where, head)
        found = review(old, new)
    except SideError as error:
        stop(f"trainwright diff: {error}")
    if new.revision is None:
        found = with_head(found, Project(new.root.resolve()), today())
    _print(found, style)
    if fail_on and any(run.change in fail_on for run in found.runs):
        raise typer.Exit(Exit.FINDINGS)


def _side(project: Project, name: str) -> Side:
    """A revision, or else a folder."""
    try:
        return git_side(project.root, name)
    except SideError:
        if not Path(name).is_dir():
            raise
        return folder_side(Path(name).resolve(), name)


def _print(found: Review, style: Format) -> None:
    if style is Format.JSON:
        output(json.dumps(data(found), indent=2))
    elif style is Format.MARKDOWN:
        output(markdown(found).rstrip("\n"))
    else:
        output(text(found))
