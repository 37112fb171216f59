"""``trainwright page``: a whole project as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.session import ProjectOption, open_sources, say, stop, today, watched
from trainwright.project.build import build_project
from trainwright.project.processors import over_processors
from trainwright.project.status import last_records
from trainwright.review import Review, folder_side, git_side, review
from trainwright.review.side import SideError


def command(
    file: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")] = Path("review.html"),
    diff: Annotated[
        str | None, typer.Option("--diff", metavar="BASE", help="Show what changed since this git revision, too.")
    ] = None,
    project: ProjectOption = None,
) -> None:
    """Write a page to review the project with: runs, plans, topologies, findings, and the reason of each line of dist/.

    One HTML file that asks no other host for anything. Runs that do not compile stand in it with their findings.
    """
    from trainwright.page import page

    where, sources = open_sources(project)
    compared: Review | None = None
    if diff is not None:
        try:
            compared = review(git_side(where.root, diff), folder_side(where.root, "the working tree"))
        except SideError as error:
            stop(f"trainwright page: {error}")
    build = build_project(sources, today(), last_records(where), watched, over_processors)
    text = page(where, build, compared, watched)
    file.write_text(text, encoding="utf-8")
    say(f"wrote {file}, {len(text.encode()) / 2**20:.1f} MiB")
