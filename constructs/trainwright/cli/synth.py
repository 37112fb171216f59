"""``trainwright synth``: compile everything into ``dist/``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from trainwright.cli.session import ProjectOption, open_sources, output, say, show, today
from trainwright.project import Build, BuiltRun, Records, Written, build_project, guard, synth
from trainwright.report.plan import plan_lines


def command(project: ProjectOption = None) -> None:
    """Compile every run into dist/, and print its plan.

    Nothing is written if a run has errors, or if a run would restart that did not change itself. Files in dist/ that
    trainwright did not write stay, and are named.
    """
    write(project)


def write(folder: Path | None, accepted: Collection[str] = ()) -> None:
    """The work of `synth`, and of `roll` with the runs it accepts."""
    project, sources = open_sources(folder)
    sources = replace(sources, held={name: held for name, held in sources.held.items() if name not in accepted})
    build = build_project(sources, today())
    before = guard(project, build, accepted)
    from trainwright.cdk8s.writer import write_files  # loads Node: only once everything has compiled

    written = synth(project, build, write_files, accepted)
    _print_plans([built for name, built in build.runs.items() if not accepted or name in accepted])
    show(build.findings)
    _print_rolled(build, before, accepted)
    _print_written(written, len(build.outputs))


def _print_plans(runs: Iterable[BuiltRun]) -> None:
    for built in runs:
        compiled = built.compiled
        output("\n".join(plan_lines(compiled)) + "\n")


def _print_rolled(build: Build, before: Records, accepted: Collection[str]) -> None:
    for name in accepted:
        entry, built = before.runs.get(name), build.runs.get(name)
        if entry and built and entry.identity != built.compiled.identity:
            say(f"rolled {name}: {entry.identity} -> {built.compiled.identity}")
        else:
            say(f"{name} had nothing to roll")


def _print_written(written: Written, total: int) -> None:
    for word, paths in (
        ("wrote", written.changed),
        ("removed", written.removed),
        ("restored, it was edited by hand:", written.restored),
        ("left alone, not ours:", written.foreign),
    ):
        for path in paths:
            say(f"{word} {path}")
    say(f"{total} files in dist/, {len(written.changed)} changed")
