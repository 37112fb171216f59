"""Writing ``dist/`` and the lock: all of it, or nothing."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.findings import CompileError, Severity
from trainwright.project.build import Build
from trainwright.project.load import Project
from trainwright.project.lock import Lock, LockedFoundation, LockedRun, digest, lock_text
from trainwright.project.status import demand_lock, edited_files, last_lock, moved_runs, other_files

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


def guard(project: Project, build: Build, accepted: Collection[str]) -> Lock:
    """The lock, if the build may be written.

    Raises:
        CompileError: where a run did not compile, or would restart without its own file saying so.
    """
    demand_lock(project, build)
    lock = last_lock(project)
    errors = [finding for finding in build.findings if finding.severity is Severity.ERROR]
    errors += moved_runs(build, lock, accepted)
    if errors:
        raise CompileError(errors)
    return lock


def synth(project: Project, build: Build, write: Writer, accepted: Collection[str] = ()) -> Written:
    """Write every file beside ``dist/`` first, then move each into place, remove stale ones, and write the lock last.

    A crash on the way loses no file: `check` then names what is stale, and the next synth ends the work.

    Raises:
        CompileError: as :func:`guard`; nothing is touched then.
        OSError: where the disk refuses.
    """
    lock = guard(project, build, accepted)
    edited = {output.path for output in edited_files(project, build, lock)}
    others = other_files(project, build, lock)
    stale, foreign = (tuple(shown for shown, kind in others.items() if kind == wanted) for wanted in ("stale", "foreign"))
    with _workspace(project) as fresh:
        write({path: output.manifests for path, output in build.outputs.items()}, fresh)
        digests = {path: digest((fresh / path).read_bytes()) for path in build.outputs}
        changed = [path for path in build.outputs if not _same(project.dist / path, digests[path])]
        for path in changed:
            _move(fresh / path, project.dist / path)
        for shown in stale:
            _remove(project.root / shown, project.dist)
        (fresh / project.lock.name).write_text(lock_text(_locked(build, lock, digests)), encoding="utf-8")
        _move(fresh / project.lock.name, project.lock)
    # after a crash a file may be as it should be, though the lock knows another
    restored = tuple(project.shown(project.dist / path) for path in changed if path in edited)
    return Written(tuple(project.shown(project.dist / path) for path in changed), stale, restored, foreign)


@contextmanager
def _workspace(project: Project) -> Iterator[Path]:
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


def _locked(build: Build, before: Lock, digests: Mapping[str, str]) -> Lock:
    runs = {
        name: LockedRun(
            file=entry.file.digest, hash=entry.compiled.identity, manifests=entry.output.digest, dist=digests[entry.output.path]
        )
        for name, entry in build.runs.items()
    }
    for name, file in build.done.items():
        runs[name] = LockedRun(file=file.digest, hash=before.runs[name].hash if name in before.runs else "", state="done")
    foundations = {
        key: LockedFoundation(manifests=entry.output.digest, dist=digests[entry.output.path])
        for key, entry in build.foundations.items()
    }
    return Lock(foundations=foundations, runs=runs)


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
