"""``trainwright hold``: keep runs as they are."""

from __future__ import annotations

from datetime import date
from importlib.metadata import version
from typing import Annotated

import typer

from trainwright.cli.session import Exit, ProjectOption, fail, open_sources, run_file, say, stop, today, watched
from trainwright.findings import Severity
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.hold import held_text
from trainwright.project.load import Project
from trainwright.project.processors import over_processors
from trainwright.project.record import Hold, Records, RunRecord, digest
from trainwright.project.status import last_records
from trainwright.project.synth import write_hold


def command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs that keep their objects as they are.")],
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for those who review it.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="DATE", help="The last day, such as 2027-01-31.")] = None,
    project: ProjectOption = None,
) -> None:
    """Keep runs as they are, where a profile, a default or Trainwright itself would restart them.

    Their objects, and what these need of the foundation, are kept in charts/held/, and every synth copies them. An edit of the
    run's own file that restarts it, `roll`, or `state: done` ends the hold. Nothing in dist/ changes; run `synth` or `roll` next.
    """
    where, sources = open_sources(project)
    last = _day(until)
    names = [run_file(sources, name) for name in dict.fromkeys(runs)]
    records, build = last_records(where), build_project(sources, today(), watch=watched, spread=over_processors)
    try:
        texts = {name: _kept(where, build, records, name) for name in names}
    except typer.Exit:
        if len(names) > 1:
            say("no run was held: leave that one out, and hold the others")
        raise
    for name, (entry, text) in texts.items():
        why = reason or (entry.hold.why if entry.hold else "its inputs changed")
        hold = Hold(
            why=" ".join(why.split()), since=_since(entry), until=last, identity=build.runs[name].compiled.identity,
            release=version("trainwright"), kept=digest(text.encode()), defaults=entry.hold.defaults if entry.hold else None,
        )
        write_hold(where, name, entry.model_copy(update={"hold": hold}), text)
        say(f"{name} is held as {name}-{entry.identity}" + (f" until {last}" if last else ""))


def _since(entry: RunRecord) -> str:
    """The release that wrote what is held."""
    if entry.hold:
        return entry.hold.since
    return entry.written_by.trainwright if entry.written_by else version("trainwright")


def _day(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        last = date.fromisoformat(text)
    except ValueError:
        stop(f"--until {text} is not a date: write it like 2027-01-31")
    if last < today():
        stop(f"--until {text} is over: write a later day")
    return last.isoformat()


def _kept(project: Project, build: Build, records: Records, name: str) -> tuple[RunRecord, str]:
    """The run's record, and the text to keep of it. Ends the command where there is nothing to hold, or where it is not whole."""
    built, entry = build.runs.get(name), records.runs.get(name)
    if name in build.done:
        stop(f"{name} is done: there is nothing to hold")
    if name in build.paused:
        stop(f"{name} is paused, and not in dist/: resume it, hold it, and pause it again")
    if built is None:
        fail([finding for finding in build.findings if finding.severity is Severity.ERROR])
    if entry is None or entry.state != "active":
        stop(f"{name} is not in dist/ yet: there is nothing to hold")
    if built.held:
        return entry, (project.held / f"{name}.yaml").read_text(encoding="utf-8")
    if entry.file != built.file.digest:
        stop(f"{built.file.name} changed since the last synth: take the edit back, hold the run, then edit it again")
    if entry.identity == built.compiled.identity:
        stop(f"{name} would not restart: there is nothing to hold")
    return entry, held_text(*_last_written(project, built.output.path, entry.dist, records), built.output.path)


def _last_written(project: Project, path: str, dist: str, records: Records) -> tuple[str, str]:
    """The files of the run and of its foundation, as the last synth left them."""
    cluster, namespace, *_ = path.split("/")
    foundation = f"{cluster}/{namespace}/foundation/{namespace}.k8s.yaml"
    entry = records.foundations.get(f"{cluster}/{namespace}")
    expected = {path: dist, **({foundation: entry.dist} if entry else {})}
    for name, wanted in expected.items():
        file = project.dist / name
        if not file.is_file() or digest(file.read_bytes()) != wanted:
            stop(f"{project.shown(file)} is not as the last synth left it: restore it from git, then hold the run", Exit.FINDINGS)
    texts = [(project.dist / name).read_text(encoding="utf-8") if name in expected else "" for name in (path, foundation)]
    return texts[0], texts[1]
