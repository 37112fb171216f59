"""``trainwright synth``: compile runs into ``dist/``."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from trainwright.cli.session import (
    Detail,
    ProjectOption,
    QuietOption,
    VerboseOption,
    detail,
    fail,
    open_sources,
    output,
    run_file,
    say,
    show,
    today,
    watched,
)
from trainwright.findings import CompileError
from trainwright.project.build import build_project
from trainwright.project.built import Build, run_of
from trainwright.project.changes import object_changes, run_lines
from trainwright.project.hold import objects_in
from trainwright.project.load import Project
from trainwright.project.processors import alone, over_cold_processors, over_processors
from trainwright.project.record import foundation_title
from trainwright.project.scope import every_run, obstacles
from trainwright.project.status import last_records, told_before
from trainwright.project.synth import Written, write_runs
from trainwright.report.plan import plan_lines


def command(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help="Only these runs; default: all.")] = None,
    project: ProjectOption = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Write the runs that compile, leave the others as they are, and end with 1.")
    ] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Compile runs into dist/, and say in one line what changed of each.

    Nothing is written if one of them has errors, or would restart though it did not change itself. What is not asked for stays as
    it is. Files in dist/ that trainwright did not write stay, and are named.
    """
    write(project, detail(quiet, verbose), runs or (), keep_going=keep_going)


def write(
    folder: Path | None, wanted: Detail, asked: Collection[str] = (), accepted: Collection[str] = (), *, keep_going: bool = False
) -> None:
    """The work of `synth`, and of `roll` with the runs that it accepts; without ``asked`` it is about every run."""
    project, sources = open_sources(folder)
    for name in asked:
        run_file(sources, name)
    sources = sources._replace(held={name: held for name, held in sources.held.items() if name not in accepted})
    records = last_records(project)
    build = build_project(sources, today(), records, watched, over_processors)
    ways = obstacles(project, build, records, accepted)
    chosen = frozenset(asked) or every_run(build, records)
    errors = ways.of(chosen) if asked else ways.all
    if ways.of_every_run or (errors and not keep_going):
        raise CompileError(errors)
    chosen -= ways.of_run.keys()
    foundations = {key: _text(project, entry.output.path) for key, entry in build.foundations.items()}
    written = write_runs(project, build, records, chosen, write_with_cdk8s, over_processors)
    _print_details(build, chosen, written, wanted)
    if wanted is not Detail.QUIET:
        paths = {key: entry.output.path for key, entry in build.foundations.items()}
        changed = {key: _object_changes(text, _text(project, paths[key])) for key, text in foundations.items()}
        _print_changes(written, [name for name in chosen if name in build.runs], changed)
    if errors:
        fail(errors)


def write_with_cdk8s(files: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path) -> None:
    """Write files through cdk8s, whose import starts Node: where there is something to write, once everything has compiled.

    Each processor has a Node of its own, unless this process has one already, which a fork would share.
    """
    from tempfile import TemporaryDirectory

    spread = alone if "jsii" in sys.modules else over_cold_processors
    with TemporaryDirectory(prefix="trainwright-") as unpacked:
        for _ in spread(partial(_write_one, folder, unpacked), list(files.items())):
            pass


def _write_one(folder: Path, unpacked: str, file: tuple[str, Sequence[Mapping[str, Any]]]) -> None:
    import tempfile
    from multiprocessing import parent_process

    if parent_process():  # where jsii unpacks its runtime: a process that was forked removes nothing at its end
        tempfile.tempdir = unpacked
    from trainwright.cdk8s.writer import write_files

    write_files(dict([file]), folder)


def _print_details(build: Build, chosen: Collection[str], written: Written, wanted: Detail) -> None:
    """The plans and findings that were asked for; otherwise what is to be looked at in the runs that changed."""
    runs = [built for name, built in build.runs.items() if name in chosen]
    if wanted is Detail.VERBOSE:
        for built in runs:
            output("\n".join(plan_lines(built.compiled, built.output.locator)) + "\n")
    else:
        before, after = written.before.runs, written.after.runs
        runs = [built for built in runs if before.get(built.file.run.run) != after[built.file.run.run]]
    findings = [finding for built in runs for finding in built.compiled.findings]
    if wanted is not Detail.VERBOSE:
        known = told_before(build, written.before)
        findings = [finding for finding in findings if finding not in known]
    show([finding for finding in findings if wanted.shows(finding.severity)])


def _text(project: Project, path: str) -> str:
    """Of a file in ``dist/``; empty where there is none."""
    place = project.dist / path
    return place.read_text(encoding="utf-8", errors="replace") if place.is_file() else ""


def _object_changes(before: str, after: str) -> str:
    """What changed in a file of ``dist/``; empty where it is the same, or was none of ours."""
    if before == after:
        return ""
    try:
        return f": {object_changes(list(objects_in(before, '')), list(objects_in(after, ''))) or 'its comments'}"
    except CompileError:
        return ""


def _print_changes(written: Written, compiled: Collection[str], foundations: Mapping[str, str]) -> None:
    """``foundations``: key -> what changed in it."""
    changed = {run for path in written.changed if (run := run_of(path))}
    lines = [*run_lines(written.before, written.after, changed), *_file_lines(written, foundations)]
    for line in lines:
        output(line)
    if not lines:
        count = f"{len(compiled)} runs are" if len(compiled) != 1 else f"{next(iter(compiled))} is"
        output(f"nothing changed: {count} as in dist/")
    for path in written.foreign:
        say(f"left alone, not ours: {path}")


def _file_lines(written: Written, foundations: Mapping[str, str]) -> Iterator[str]:
    """What no run's line tells of."""
    before, after = written.before, written.after
    for key in sorted(before.foundations.keys() | after.foundations.keys()):
        old, new = before.foundations.get(key), after.foundations.get(key)
        if new is None or old is None or old.dist != new.dist:
            how = f"changed{foundations.get(key, '')}"
            yield f"{foundation_title(key)}: {'removed' if new is None else 'new' if old is None else how}"
    for name in sorted(before.clusters.keys() | after.clusters.keys()):
        if before.clusters.get(name) != after.clusters.get(name):
            yield f"profile {name}: recorded as its runs are compiled now"
    yield from (f"{path}: restored, it was edited by hand" for path in written.restored)
    yield from (f"{path}: written again, it was missing" for path in written.replaced)
