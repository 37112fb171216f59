"""``trainwright explain``: why a line of ``dist/`` is as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.session import ProjectOption, fail, open_project, open_sources, output, stop, today, watched
from trainwright.explain import Explainer, Explanation
from trainwright.model import closest
from trainwright.pages import page_text
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project
from trainwright.project.processors import over_processors


def command(
    place: Annotated[
        str,
        typer.Argument(metavar="FILE[:LINE|:POINTER]", help="A file of dist/, and a line or /Kind/path in it; or a record."),
    ],
    project: ProjectOption = None,
) -> None:
    """Say where each value comes from, and why it is as it is.

    Without a line or a pointer, every line of the file is explained. For a record in charts/lock it prints what records say.
    """
    name, _, part = place.partition(":")
    path = (Path.cwd() / name).resolve()
    root = open_project(project)
    if path.is_file() and (path.is_relative_to(root.records.resolve()) or path.is_relative_to(root.held.resolve())):
        output(page_text("record"))
        return
    where, sources = open_sources(project)
    if not path.is_file():
        near = _near(where, name)
        hint = f"did you mean {near}? give" if near else "give"
        stop(f"{name} is not a file: {hint} one of dist/ and a line, such as dist/CLUSTER/NAMESPACE/runs/RUN.k8s.yaml:12")
    build = build_project(sources, today(), watch=watched, spread=over_processors)
    explainer = explainer_for(where, build, path)
    if explainer is None:
        if build.failed and path.is_relative_to(where.dist):
            fail(build.findings)
        stop(f"{name} is not a file that trainwright writes: give one of dist/, such as {_example(build)}")
    output("\n".join(_text(where.shown(path), answer) for answer in _answers(explainer, name, part)))


def explainer_for(project: Project, build: Build, path: Path) -> Explainer | None:
    """The explainer of one file of ``dist/``; None for a file that nothing makes."""
    relative = path.relative_to(project.dist).as_posix() if path.is_relative_to(project.dist) else ""
    text = path.read_text(encoding="utf-8")
    output = build.outputs.get(relative)
    return Explainer(text, project.shown(path), output) if output else None


def _near(project: Project, name: str) -> str | None:
    """The file of ``dist/`` that is of this run, or that is called nearly so."""
    files = {path.name.partition(".")[0]: project.shown(path) for path in sorted(project.dist.glob("*/*/runs/*.yaml"))}
    near = closest(Path(name).name.partition(".")[0], files)
    return files[near] if near else None


def _example(build: Build) -> str:
    return next((f"dist/{path}" for path in build.outputs if "/runs/" in path), "dist/CLUSTER/NAMESPACE/runs/RUN.k8s.yaml")


def _answers(explainer: Explainer, name: str, part: str) -> list[Explanation]:
    if not part:
        return list(explainer.all())
    answer = (
        explainer.line(int(part))
        if re.fullmatch(r"[0-9]{1,9}", part)
        else explainer.pointer(part if part.startswith("/") else f"/{part}")
    )
    if answer is None:
        stop(f"{name} has nothing at {part}: give a line of it, or a pointer such as /Job/spec/completions")
    return [answer]


def _text(shown: str, answer: Explanation) -> str:
    source = f"  ({answer.where})" if answer.where else ""
    return f"{shown}:{answer.line}: {answer.text}\n    {answer.reason}{source}"
