"""Writing ``dist/`` and the records: all of what is asked for, or nothing."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trainwright.findings import CompileError, Where
from trainwright.findings.codes import found
from trainwright.manifest.provenance import origin
from trainwright.project.built import KEEPS_FOLDER, Build, Manifest, Output
from trainwright.project.hold import held_path
from trainwright.project.load import Project
from trainwright.project.processors import Spread, alone
from trainwright.project.record import (
    ClusterRecord,
    Digest,
    FoundationRecord,
    Records,
    RunRecord,
    digest,
    installed_releases,
    record_text,
    run_path,
)
from trainwright.project.scope import Part, every_run, obstacles, part_of
from trainwright.project.status import (
    cluster_records,
    edited_files,
    ended_holds,
    has_header,
    last_records,
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
    replaced: tuple[str, ...]
    """Files that were missing."""
    foreign: tuple[str, ...]
    before: Records
    after: Records


def guard(project: Project, build: Build, accepted: Collection[str]) -> Records:
    """The records, if the whole build may be written.

    Raises:
        CompileError: with everything that stands in its way: see :func:`~trainwright.project.scope.obstacles`.
    """
    records = last_records(project)
    errors = obstacles(project, build, records, accepted).all
    if errors:
        raise CompileError(errors)
    return records


def synth(project: Project, build: Build, write: Writer, accepted: Collection[str] = ()) -> Written:
    """Write everything.

    Raises:
        CompileError: as :func:`guard`, and as :func:`write_runs`; nothing is touched then.
        OSError: where the disk refuses.
    """
    before = guard(project, build, accepted)
    return write_runs(project, build, before, every_run(build, before), write)


def write_runs(
    project: Project, build: Build, before: Records, chosen: Collection[str], write: Writer, spread: Spread = alone
) -> Written:
    """Write the files of runs beside ``dist/`` first, then move each into place, remove stale ones, and write the records last.

    All other runs keep the bytes of their files and records. A crash on the way loses no file: `check` then names what is stale,
    and the next synth ends the work.

    ``spread`` may use other processes, which change nothing but how long it takes.

    Raises:
        CompileError: where a file would say something else than was compiled; nothing is touched then.
        OSError: where the disk refuses.
    """
    part = part_of(project, build, before, chosen)
    outputs = part.build.outputs
    digests = _as_they_are(project, outputs, before)
    due = {path: output for path, output in outputs.items() if path not in digests}
    edited = edited_files(project, due, before)
    missing = {path for path, output in due.items() if _is_missing(project, output, before)}
    others = other_files(project, build, before)
    foreign = tuple(shown for shown, kind in others.items() if kind == "foreign")
    stale = tuple(shown for shown, kind in others.items() if kind == "stale" and part.removes(shown))
    with workspace(project) as fresh:
        write_outputs(due, write, fresh)
        digests |= {path: digest((fresh / path).read_bytes()) for path in due}
        changed = [path for path in due if not _same(project.dist / path, digests[path])]
        _demand_same_values({path: due[path] for path in changed}, fresh, spread)
        for path in changed:
            _move(fresh / path, project.dist / path)
        for shown in stale:
            _remove(project.root / shown, project.dist)
        _keep_folders(project, build)
        after = _recorded(part, before, digests)
        write_records(project, before, after, fresh)
        for ended in ended_holds(project, build):
            if ended.stem not in part.left:
                ended.unlink()
    names = {path: project.shown(project.dist / path) for path in changed}
    # after a crash a file may be as it should be, though its record knows another
    restored = tuple(names[path] for path in changed if path in edited)
    replaced = tuple(names[path] for path in changed if path in missing)
    return Written(tuple(names.values()), stale, restored, replaced, foreign, before, after)


def _as_they_are(project: Project, outputs: Mapping[str, Output], before: Records) -> dict[str, Digest]:
    """Digests of the files that this cdk8s wrote from these objects, below the comments that they would get now, and that nobody
    has touched since: they are not written.
    """
    now = installed_releases()
    entries: dict[str, RunRecord | FoundationRecord] = {**before.runs, **before.foundations}
    kept = {}
    for path, output in outputs.items():
        entry = entries.get(output.run or output.foundation)
        if entry is None or entry.written_by is None or entry.manifests != output.digest:
            continue
        same_writers = (entry.written_by.cdk8s, entry.written_by.jsii) == (now.cdk8s, now.jsii)
        if same_writers and _same(project.dist / path, entry.dist) and has_header(project.dist / path, output):
            kept[path] = entry.dist
    return kept


def _is_missing(project: Project, output: Output, before: Records) -> bool:
    """Whether a file is gone that was written as the run compiles now."""
    return output.digest in before.manifests_digests and not (project.dist / output.path).exists()


def write_outputs(outputs: Mapping[str, Output], write: Writer, folder: Path) -> None:
    """Files of ``dist/`` below a folder: those of held runs are copied, all others go through ``write``, which starts Node, and
    get their comments above what it wrote.
    """
    compiled = {path: output.manifests for path, output in outputs.items() if output.held is None}
    if compiled:
        write(compiled, folder)
    for path, output in outputs.items():
        file = folder / path
        if output.held is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(output.held.text.encode())
        else:
            file.write_bytes(output.header.encode("ascii") + file.read_bytes())


def _demand_same_values(outputs: Mapping[str, Output], folder: Path, spread: Spread) -> None:
    """Read what was written, and demand that it says what was compiled.

    Raises:
        CompileError: TW516 for each value that readers would take for another one.
    """
    findings = []
    differing = spread(_differences, [(folder / path, output.manifests) for path, output in outputs.items()])
    for (path, output), pointers in zip(outputs.items(), differing, strict=True):
        for index, pointer in pointers:
            locate = output.locators.get(index, output.locator)
            where = locate.source(*origin(output.provenance()[index], pointer)) or Where(output.change)
            message = f"{output.manifests[index]['kind']}{pointer} would read as another value from dist/{path}"
            findings.append(found("TW516", where, message, "write this value in another form"))
    if findings:
        raise CompileError(findings)


def _differences(written: tuple[Path, Sequence[Manifest]]) -> list[tuple[int, str]]:
    """Where a file says something else than its objects; for any process."""
    from trainwright.validate.read_back import differences  # only what is written is read again

    path, manifests = written
    return list(differences(path.read_text(encoding="utf-8"), manifests))


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


def _recorded(part: Part, before: Records, digests: Mapping[str, str]) -> Records:
    """What there is to say of everything that was written, and what was said of the runs that were left as they are."""
    now, build = installed_releases(), part.build
    runs = {name: entry for name, entry in before.runs.items() if name in part.left}
    for name, built in build.runs.items():
        runs[name] = _as_before(run_record(built, digests[built.output.path], now), before.runs.get(name))
    for name, built in build.paused.items():
        if name in before.runs:
            kept = before.runs[name].model_copy(update={"hold": None}) if built.held is None else run_record(built, "", None)
            runs[name] = kept.model_copy(update={"state": "paused", "file": built.file.digest})
    for name, file in build.done.items():
        last = before.runs.get(name)
        if last:
            runs[name] = RunRecord(identity=last.identity, file=file.digest, state="done", facts=last.facts)
    foundations = dict(before.foundations) if part.left else {}
    for key, foundation in build.foundations.items():
        output = foundation.output
        entry = FoundationRecord(manifests=output.digest, dist=digests[output.path], written_by=now)
        foundations[key] = _as_before(entry, before.foundations.get(key))
    return Records(runs, foundations, _profiles(part, before))


def _profiles(part: Part, before: Records) -> Mapping[str, ClusterRecord]:
    """As all runs of a cluster were last compiled with it: where one of them is pending, the record of its profile stays.

    A pending run that was never written has nothing that the profile could restart.
    """
    now = cluster_records(part.build)
    if not part.left:
        return now
    waiting = {_cluster_of(name, before) for name in part.pending if name in before.runs or run_path(name) in before.broken}
    return before.clusters if None in waiting else dict(before.clusters) | {
        name: entry for name, entry in now.items() if name not in waiting
    }


def _cluster_of(name: str, before: Records) -> str | None:
    """The cluster of a run as its record says it, if it does."""
    said = before.runs[name].facts.get("cluster") if name in before.runs else None
    return None if said is None else str(said)


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


def _keep_folders(project: Project, build: Build) -> None:
    """A file in each folder for runs that has no others: it is in Git then, and Argo CD can sync it and remove what was there."""
    folders = [project.dist / path for path in build.run_folders]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):  # it may have the files of runs that are not written now
            (folder / KEEPS_FOLDER).touch()
    for keeps in sorted(project.dist.glob(f"*/*/runs/{KEEPS_FOLDER}")):
        gone = keeps.parent not in folders and not build.failed  # what does not compile at the moment is not gone
        if gone or len(list(keeps.parent.iterdir())) > 1:
            _remove(keeps, project.dist)


def _remove(path: Path, top: Path) -> None:
    """The file, and the folders that it leaves empty."""
    path.unlink()
    for folder in path.parents:
        if folder == top or any(folder.iterdir()):
            break
        folder.rmdir()
