"""Writing ``dist/`` and the records: all of it, or nothing."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trainwright.findings import CompileError, Severity, Where
from trainwright.findings.codes import found
from trainwright.manifest.provenance import origin
from trainwright.project.build import Build
from trainwright.project.hold import held_path
from trainwright.project.load import Project
from trainwright.project.record import (
    FoundationRecord,
    Records,
    RunRecord,
    digest,
    installed_releases,
    record_text,
    run_path,
)
from trainwright.project.status import (
    cluster_records,
    edited_files,
    ended_holds,
    last_records,
    links,
    moved_runs,
    other_files,
    run_record,
)

Writer = Callable[[Mapping[str, Sequence[Mapping[str, Any]]], Path], None]
"""Writes files (path -> objects) below a folder; cdk8s is the one writer of ``dist/``."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a synth did, in paths as people read them."""

    changed: tuple[str, ...]
    removed: tuple[str, ...]
    restored: tuple[str, ...]
    """Files that were edited by hand and are as compiled again."""
    foreign: tuple[str, ...]


def guard(project: Project, build: Build, accepted: Collection[str]) -> Records:
    """The records, if the build may be written.

    Raises:
        CompileError: where a run did not compile, a record cannot be read, a run would restart without its own file saying so, or
            ``dist/`` holds a link.
    """
    records = last_records(project)
    errors = [finding for finding in build.findings if finding.severity is Severity.ERROR]
    errors += [finding for findings in records.broken.values() for finding in findings]
    errors += [*moved_runs(project, build, records, accepted), *links(project)]
    if errors:
        raise CompileError(errors)
    return records


def synth(project: Project, build: Build, write: Writer, accepted: Collection[str] = ()) -> Written:
    """Write every file beside ``dist/`` first, then move each into place, remove stale ones, and write the records last.

    A crash on the way loses no file: `check` then names what is stale, and the next synth ends the work.

    Raises:
        CompileError: as :func:`guard`, and where a file would say something else than was compiled; nothing is touched then.
        OSError: where the disk refuses.
    """
    before = guard(project, build, accepted)
    edited = {output.path for output in edited_files(project, build, before)}
    others = other_files(project, build, before)
    stale, foreign = (tuple(shown for shown, kind in others.items() if kind == wanted) for wanted in ("stale", "foreign"))
    with workspace(project) as fresh:
        write_outputs(build, write, fresh)
        digests = {path: digest((fresh / path).read_bytes()) for path in build.outputs}
        changed = [path for path in build.outputs if not _same(project.dist / path, digests[path])]
        _demand_same_values(build, changed, fresh)
        for path in changed:
            _move(fresh / path, project.dist / path)
        for shown in stale:
            _remove(project.root / shown, project.dist)
        after = _recorded(build, before, digests)
        write_records(project, before, after, fresh)
        for ended in ended_holds(project, build):
            ended.unlink()
    # after a crash a file may be as it should be, though its record knows another
    restored = tuple(project.shown(project.dist / path) for path in changed if path in edited)
    return Written(tuple(project.shown(project.dist / path) for path in changed), stale, restored, foreign)


def write_outputs(build: Build, write: Writer, folder: Path) -> None:
    """Every file of ``dist/`` below a folder: those of held runs are copied, all others go through ``write``."""
    write({path: output.manifests for path, output in build.outputs.items() if output.held is None}, folder)
    for path, output in build.outputs.items():
        if output.held is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(output.held.text.encode())


def _demand_same_values(build: Build, paths: Sequence[str], folder: Path) -> None:
    """Read what was written, and demand that it says what was compiled.

    Raises:
        CompileError: TW516 for each value that readers would take for another one.
    """
    from trainwright.validate.read_back import differences  # only what is written is read again

    findings = []
    for path in paths:
        output = build.outputs[path]
        for index, pointer in differences((folder / path).read_text(encoding="utf-8"), output.manifests):
            locate = output.locators.get(index, output.locator)
            where = locate.source(*origin(output.provenance()[index], pointer)) or Where(output.change)
            message = f"{output.manifests[index]['kind']}{pointer} would read as another value from dist/{path}"
            findings.append(found("TW516", where, message, "write this value in another form"))
    if findings:
        raise CompileError(findings)


def write_records(project: Project, before: Records, after: Records, fresh: Path) -> None:
    """Move each record that changed into place, and remove those of what is gone; ``fresh`` is a folder on the same disk."""
    texts = {path: record_text(record) for path, record in after.paths.items()}
    for path, text in texts.items():
        target = project.records / path
        if not target.is_file() or target.read_bytes() != text.encode():
            made = fresh / "records" / path
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(text, encoding="utf-8")
            _move(made, target)
    for path in sorted(before.paths.keys() - texts.keys()):
        _remove(project.records / path, project.records)


@contextmanager
def workspace(project: Project) -> Iterator[Path]:
    """A folder beside ``dist/``, on the same disk, that one synth at a time has to itself. What a killed one left is gone."""
    folder = project.root / ".dist.partial"
    handle = os.open(project.root / "charts", os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError("another synth is writing dist/: try again when it has ended") from None
        except OSError:
            pass  # some network file systems lock no folders
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)


def write_hold(project: Project, run: str, entry: RunRecord, text: str) -> None:
    """Keep a run as it is: first what is kept, then the record that says so."""
    with workspace(project) as fresh:
        for name, content, target in (
            ("held", text, held_path(project.held, run)),
            ("record", record_text(entry), project.records / run_path(run)),
        ):
            (fresh / name).write_text(content, encoding="utf-8")
            _move(fresh / name, target)


def _recorded(build: Build, before: Records, digests: Mapping[str, str]) -> Records:
    """What there is to say of everything that was written."""
    now = installed_releases()
    runs = {name: run_record(entry, digests[entry.output.path], now) for name, entry in build.runs.items()}
    runs = {name: _as_before(entry, before.runs.get(name)) for name, entry in runs.items()}
    for name, file in build.done.items():
        last = before.runs.get(name)
        if last:
            runs[name] = RunRecord(identity=last.identity, file=file.digest, state="done", facts=last.facts)
    foundations = {}
    for key, built in build.foundations.items():
        entry = FoundationRecord(manifests=built.output.digest, dist=digests[built.output.path], written_by=now)
        foundations[key] = _as_before(entry, before.foundations.get(key))
    return Records(runs, foundations, cluster_records(build))


T = TypeVar("T", RunRecord, FoundationRecord)


def _as_before(now: T, before: T | None) -> T:
    """With the release of trainwright that wrote the file, where this one would write the same: an upgrade is no edit."""
    if before is None or before.written_by is None or now.written_by is None:
        return now
    kept = now.model_copy(update={"written_by": now.written_by.model_copy(update={"trainwright": before.written_by.trainwright})})
    return kept if kept == before else now


def _same(path: Path, wanted: str) -> bool:
    return path.is_file() and digest(path.read_bytes()) == wanted


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


def _remove(path: Path, top: Path) -> None:
    """The file, and the folders that it leaves empty."""
    path.unlink()
    for folder in path.parents:
        if folder == top or any(folder.iterdir()):
            break
        folder.rmdir()
