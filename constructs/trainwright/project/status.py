"""How ``dist/`` and the records stand to what the project compiles to."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from trainwright.findings import Finding, Severity, Where
from trainwright.findings.codes import found
from trainwright.project.built import KEEPS_FOLDER, SUFFIX, Build, BuiltFoundation, BuiltRun, Output
from trainwright.project.causes import restarts
from trainwright.project.load import Project
from trainwright.project.record import (
    ARGO_CD,
    ClusterRecord,
    FoundationRecord,
    Hold,
    Records,
    Releases,
    RunRecord,
    cluster_path,
    digest,
    foundation_path,
    foundation_title,
    read_records,
    run_path,
)
from trainwright.report.facts import finding_facts, profile_facts
from trainwright.report.header import split_header


def last_records(project: Project) -> Records:
    """The project's records; none before the first synth."""
    return read_records(project.records, project.shown)


# What a record says, made anew.


def run_record(built: BuiltRun, dist: str, written_by: Releases | None) -> RunRecord:
    """Of a run as it compiles now, or is held, with the digest of its file in ``dist/`` and what wrote that."""
    if built.held is not None:
        return built.held.recorded(built.file.digest, built.compiled.identity, built.file.defaults)
    return RunRecord(
        identity=built.identity, file=built.file.digest, manifests=built.output.digest, dist=dist,
        written_by=written_by, facts=dict(built.facts), defaults=built.file.defaults, findings=finding_facts(built.compiled),
    )


def told_before(build: Build, records: Records) -> set[Finding]:
    """Warnings of runs whose files are as they were, in records that have them already: nobody's edit brought them."""
    known, others = set[Finding](), set[Finding]()
    for name, built in build.runs.items():
        entry = records.runs.get(name)
        recorded = entry.findings or {} if entry is not None and _unedited(built, entry) else {}
        for finding in built.compiled.findings:
            told = finding.severity is Severity.WARNING and recorded.get(finding.code) == "warning"
            (known if told else others).add(finding)
    return known - others


def cluster_records(build: Build) -> dict[str, ClusterRecord]:
    return {name: ClusterRecord(profile=profile_facts(file.cluster)) for name, file in build.clusters.items()}


# What must not happen silently.


def moved_runs(project: Project, build: Build, records: Records, accepted: Collection[str] = ()) -> dict[str, Finding]:
    """Runs that would restart though nobody asked for it in their own files.

    The record says which identity a run had and which file it was from. Where the record is gone, the names in ``dist/`` say it.
    """
    before = {name: entry.identity for name, entry in records.runs.items() if _unedited(build.runs.get(name), entry)}
    moved = {
        name: build.runs[name] for name, old in before.items()
        if old != build.runs[name].identity and records.runs[name].hold is None
    }
    findings = {name: finding for finding, names in restarts(project, moved, records, accepted) for name in names}
    findings |= _unclear_holds(project, build, records, accepted)
    return findings | _without_record(project, build, records, accepted)


def ended_runs(build: Build, records: Records) -> dict[str, Finding]:
    """Runs that are to be paused, and have ended by their records."""
    findings = {}
    for name, built in build.paused.items():
        if name in records.runs and records.runs[name].state == "done":
            fix = f"write `state: done`; to run it again, write `attempt: {built.file.run.attempt + 1}` instead"
            findings[name] = found("TW517", built.file.locator(None).run("/state"), f"{name} is done, and cannot be paused", fix)
    return findings


def _unclear_holds(project: Project, build: Build, records: Records, accepted: Collection[str]) -> dict[str, Finding]:
    """Held runs whose bytes are gone, and those that were edited together with what they are held against."""
    findings = {}
    for name, built in build.users.items():
        entry = records.runs.get(name)
        if entry is None or entry.hold is None or built.held or name in accepted or built.identity == entry.identity:
            continue
        shown = project.shown(project.held / f"{name}.yaml")
        if entry.file == built.file.digest:
            fix = f"restore it from git; or let the run restart with `trainwright roll {name}`"
            findings[name] = found("TW512", Where(shown), f"{name} is held, and {shown} is missing", fix)
        elif _inputs_changed(built, entry.hold, records):
            message = f"{name} is held, and its file changed together with its profile, with defaults or with Trainwright"
            fix = f"take the edit back, run `trainwright synth`, and edit again; or let it restart with `trainwright roll {name}`"
            findings[name] = found("TW513", built.file.locator(built.cluster).run("/run"), message, fix)
    return findings


def _inputs_changed(built: BuiltRun, hold: Hold, records: Records) -> bool:
    """Whether the profile, the defaults or the release are others than at the last synth."""
    cluster = records.clusters.get(built.file.run.cluster)
    if records.runs[built.file.run.run].defaults != built.file.defaults:
        return True
    return cluster is None or cluster.profile != profile_facts(built.cluster.cluster) or hold.release != version("trainwright")


def _unedited(built: BuiltRun | None, entry: RunRecord) -> bool:
    return built is not None and entry.state == "active" and entry.file == built.file.digest


def _without_record(project: Project, build: Build, records: Records, accepted: Collection[str]) -> dict[str, Finding]:
    """Runs whose file in ``dist/`` has no record, and other names in it than the run would get: they may be training."""
    findings = {}
    for name, built in build.runs.items():
        if name in accepted or name in records.runs or run_path(name) in records.broken:
            continue
        for path in sorted(project.dist.glob(f"*/*/runs/{name}{SUFFIX}")):
            old = identities_in(path, name)
            if old != {built.identity}:
                shown, names = project.shown(path), ", ".join(sorted(old)) or "no identity at all"
                message = f"{name} has no record, and {shown} has {names} where the run compiles to {built.identity}"
                fix = (f"restore {_shown(project, run_path(name))} from git; or accept that the run starts anew with "
                       f"`trainwright roll {name}`")
                findings[name] = found("TW508", Where(shown), message, fix)
    return findings


def identities_in(path: Path, run: str) -> set[str]:
    """The identities in the names of a file's objects, by its text: what somebody edited by hand counts too."""
    name = re.compile(rf'^  name: "?{re.escape(run)}-([0-9a-z]{{8}})(?:-[-0-9a-z]*)?"?$', re.MULTILINE)
    return set(name.findall(path.read_text(encoding="utf-8", errors="replace")))


# What `check` reports.


def compare(project: Project, build: Build, records: Records) -> list[Finding]:
    """Stale, edited by hand, missing and foreign files, and records that say something else.

    What stands in the way of a synth is said by :func:`~trainwright.project.scope.obstacles`.
    """
    findings = [*_stale_runs(project, build, records), *_stale_rest(project, build, records), *_left(project, build, records)]
    for name, built in build.runs.items():
        findings += _differs(project, built.output, records.runs.get(name))
    for key, foundation in build.foundations.items():
        findings += _differs(project, foundation.output, records.foundations.get(key))
    for folder in (project.dist / path for path in build.idle):
        if not folder.is_dir():
            shown = project.shown(folder)
            message = f"{shown} is missing: Argo CD syncs no folder that is gone, so the last run there would go on training"
            findings.append(found("TW504", Where(shown), message, FIX))
    for shown, kind in other_files(project, build, records).items():
        if kind == "foreign":
            fix = "move it to another folder; Trainwright leaves it alone"
            findings.append(found("TW505", Where(shown), f"{shown} was not written by trainwright, or its record is gone", fix))
        elif not build.failed:  # else it may belong to a run that does not compile at the moment
            findings.append(
                found("TW502", Where(shown), f"{shown} belongs to a run that is gone, paused or done", "run `trainwright synth`")
            )
    return findings


def compare_runs(project: Project, build: Build, records: Records, names: Collection[str]) -> list[Finding]:
    """The same for some runs alone: their files and their records."""
    runs = {name: built for name, built in build.runs.items() if name in names}
    paused = {name: built for name, built in build.paused.items() if name in names}
    done = {name: file for name, file in build.done.items() if name in names}
    part = build._replace(runs=runs, paused=paused, done=done)
    findings = [*_stale_runs(project, part, records)]
    for name, built in runs.items():
        findings += _differs(project, built.output, records.runs.get(name))
    return findings


def _differs(project: Project, output: Output, entry: RunRecord | FoundationRecord | None) -> Iterator[Finding]:
    """A file that is not what its record says was written."""
    if entry is None:
        return
    path = project.dist / output.path
    shown = project.shown(path)
    if not path.is_file():
        fix = "run `trainwright synth` and commit it; to end a run, write `state: done` in its file"
        yield found("TW504", Where(shown), f"{shown} is missing", fix)
    # what is stale anyway may be what a synth wrote that was killed before it wrote the record
    elif entry.manifests == output.digest and digest(path.read_bytes()) == entry.dist:
        if not has_header(path, output):
            yield found("TW502", Where(shown), f"{shown} begins with other comments than this release writes there", FIX)
    elif entry.manifests == output.digest:
        fix = f"edit {output.change} instead (`trainwright explain {shown}:LINE` says where), then run `trainwright synth`"
        yield found("TW503", Where(shown), f"{shown} was edited by hand", fix)


def has_header(path: Path, output: Output) -> bool:
    """Whether the comments at the top of a file are those that a synth would write now; a held run keeps its own."""
    return output.held is not None or split_header(path.read_text(encoding="utf-8"))[0] == output.header


FIX = "run `trainwright synth` and commit dist/ and charts/lock/"


def _stale_runs(project: Project, build: Build, records: Records) -> Iterator[Finding]:
    for name, built in build.runs.items():
        entry = records.runs.get(name)
        if run_path(name) in records.broken:
            continue
        if entry is None and (project.dist / built.output.path).is_file():
            if identities_in(project.dist / built.output.path, name) == {built.identity}:
                message = f"{_shown(project, run_path(name))} is missing; {name} has kept its identity"
                fix = "restore it from git, or run `trainwright synth`, which writes it again"
                yield found("TW508", Where(built.file.name), message, fix)
        elif entry is None or entry.state != "active":
            what = "active again" if entry and entry.state == "paused" else "new"
            yield found("TW502", Where(built.file.name), f"run {name} is {what} and not in dist/ yet", FIX)
        elif entry.file != built.file.digest or (
            entry.identity == built.identity and entry != run_record(built, entry.dist, entry.written_by)
        ):
            yield found("TW502", Where(built.file.name), f"run {name} changed since dist/ was written", FIX)
    paused = {name: built.file for name, built in build.paused.items()}
    for state, files in (("paused", paused), ("done", build.done)):
        for name, file in files.items():
            if name in records.runs and records.runs[name].state != state:
                still = " and still in dist/" if records.runs[name].state == "active" else ", and its record says otherwise"
                yield found("TW502", Where(file.name), f"run {name} is {state}{still}", FIX)


def _stale_rest(project: Project, build: Build, records: Records) -> Iterator[Finding]:
    facts = [records.runs[name].facts for name in build.failures if name in records.runs]
    unknown = {f"{one.get('cluster')}/{one.get('namespace')}" for one in facts}  # until what needs them compiles again
    unknown |= {key for key in build.foundations if build.failures and key.startswith(ARGO_CD)}
    for key, built in build.foundations.items():
        if foundation_path(key) not in records.broken and key not in unknown and _changed(built, records.foundations.get(key)):
            message = f"{foundation_title(key)} {_stale(records.foundations.get(key))}"
            yield found("TW502", Where(built.output.change), message, FIX)
    for name, entry in cluster_records(build).items():
        if cluster_path(name) not in records.broken and records.clusters.get(name) != entry:
            yield found("TW502", Where(build.clusters[name].name), f"profile {name} {_stale(records.clusters.get(name))}", FIX)


def _stale(entry: object) -> str:
    """In which way something is not what its record says."""
    return "changed since dist/ was written" if entry else "is new, and dist/ was not written since"


def _changed(built: BuiltFoundation, entry: FoundationRecord | None) -> bool:
    return entry is None or entry.manifests != built.output.digest


def _left(project: Project, build: Build, records: Records) -> Iterator[Finding]:
    """Records and held files of what is gone."""
    for held in map(project.shown, ended_holds(project, build)):
        yield found("TW502", Where(held), f"{held} is of a run that is not held", FIX)
    if not build.failed:  # what does not compile at the moment is not gone
        for path in sorted(records.paths.keys() - build.recorded):
            shown = _shown(project, path)
            yield found("TW502", Where(shown), f"{shown} is the record of something that is gone", FIX)


def other_files(project: Project, build: Build, records: Records) -> dict[str, Literal["stale", "foreign"]]:
    """Files in ``dist/`` that the build does not make, as shown: ours from before (by digest) are stale, the others foreign."""
    expected, ours = set(build.outputs), records.dist_digests
    others: dict[str, Literal["stale", "foreign"]] = {}
    for path in sorted(project.dist.rglob("*")) if project.dist.is_dir() else []:
        if path.is_file() and path.name != KEEPS_FOLDER and path.relative_to(project.dist).as_posix() not in expected:
            stale = path.name.endswith(SUFFIX) and digest(path.read_bytes()) in ours
            others[project.shown(path)] = "stale" if stale else "foreign"
    return others


def links(project: Project) -> Iterator[Finding]:
    """Links in ``dist/``, and ``dist/`` where it is one: a file below would be written, or read, outside of the project."""
    inside = (Path(folder) / name for folder, folders, files in os.walk(project.dist) for name in sorted((*folders, *files)))
    for path in (project.dist, *inside):
        if path.is_symlink():
            shown = project.shown(path)
            fix = "remove it; `trainwright synth` writes what belongs there"
            yield found("TW515", Where(shown), f"{shown} is a symbolic link", fix)


def ended_holds(project: Project, build: Build) -> list[Path]:
    """Files of runs that are not held any more; what does not compile at the moment may be."""
    held = {name for name, built in build.users.items() if built.held} | build.failures.keys()
    return [path for path in sorted(project.held.glob("*.yaml")) if path.stem not in held]


def edited_files(project: Project, paths: Iterable[str], records: Records) -> set[str]:
    """Those of some paths below ``dist/`` whose files are not what the last synth wrote."""
    known = records.dist_digests
    there = (path for path in paths if known and (project.dist / path).is_file())
    return {path for path in there if digest((project.dist / path).read_bytes()) not in known}


def _shown(project: Project, record: str) -> str:
    return project.shown(project.records / record)
