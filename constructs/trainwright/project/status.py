"""How ``dist/`` and the lock stand to what the project compiles to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found
from trainwright.project.build import Build, Output
from trainwright.project.load import Project
from trainwright.project.lock import Lock, LockedFoundation, LockedRun, digest, read_lock

SUFFIX = ".k8s.yaml"


def moved_runs(build: Build, lock: Lock, accepted: Collection[str] = ()) -> list[Finding]:
    """Runs whose identity moved though their own file did not: a profile edit or a new compiler would restart them."""
    moved = {
        name: locked.hash
        for name, built in build.runs.items()
        if (locked := lock.runs.get(name)) and locked.state == "active" and locked.file == built.file.digest
        and locked.hash != built.compiled.identity
    }
    # dist/ is written as a whole, so whoever accepts one of them accepts them all
    fix = f"take the cause back, or accept it with `trainwright roll {' '.join(moved)}`"
    findings = []
    for name, before in moved.items():
        if name in accepted:
            continue
        built = build.runs[name]
        message = f"{name} would restart: {before} -> {built.compiled.identity}, and its own file did not change"
        findings.append(found("TW501", built.file.locator(built.cluster).run("/run"), message, fix))
    return findings


def last_lock(project: Project) -> Lock:
    """The project's lock; an empty one before the first synth.

    Raises:
        CompileError: where it cannot be read.
    """
    return read_lock(project.lock, project.shown(project.lock))


def demand_lock(project: Project, build: Build) -> None:
    """Demand that there is a lock, if there is anything in ``dist/`` that it should know.

    Raises:
        CompileError: where it is gone though ``dist/`` is there: nobody can tell then what would restart.
    """
    if not project.lock.exists():
        left = [path for path in build.outputs if (project.dist / path).is_file()]
        if left:
            message = f"the lock is missing, and dist/ has {left[0]}{' and more' if len(left) > 1 else ''}"
            fix = "restore it from git; to begin anew without it, remove that part of dist/ too"
            raise CompileError([found("TW506", _file(project.shown(project.lock)), message, fix)])


def compare(project: Project, build: Build, lock: Lock) -> list[Finding]:
    """What `check` reports: stale, edited by hand, missing and foreign files."""
    findings = list(_stale(build, lock))
    entries: list[tuple[Output, LockedRun | LockedFoundation]] = []
    entries += [(built.output, lock.runs[name]) for name, built in build.runs.items() if name in lock.runs]
    entries += [(built.output, lock.foundations[key]) for key, built in build.foundations.items() if key in lock.foundations]
    for output, locked in entries:
        path = project.dist / output.path
        shown = project.shown(path)
        if not path.is_file():
            findings.append(found("TW504", _file(shown), f"{shown} is missing", "run `trainwright synth` and commit it"))
        # what is stale anyway may be what a synth wrote that was killed before it wrote the lock
        elif locked.manifests == output.digest and digest(path.read_bytes()) != locked.dist:
            fix = f"edit {output.change} instead (`trainwright explain {shown}:LINE` says where), then run `trainwright synth`"
            findings.append(found("TW503", _file(shown), f"{shown} was edited by hand", fix))
    for shown, kind in other_files(project, build, lock).items():
        if kind == "stale" and build.failed:
            continue  # it may belong to a run that does not compile at the moment
        if kind == "stale":
            findings.append(
                found("TW502", _file(shown), f"{shown} belongs to a run that is gone or done", "run `trainwright synth`")
            )
        else:
            findings.append(
                found("TW505", _file(shown), f"{shown} was not written by trainwright", "move it out of dist/; it is left alone")
            )
    return findings


def _stale(build: Build, lock: Lock) -> Iterator[Finding]:
    fix = "run `trainwright synth` and commit dist/ and the lock"
    for name, built in build.runs.items():
        locked = lock.runs.get(name)
        if locked is None or locked.state != "active":
            yield found("TW502", _file(built.file.name), f"run {name} is new and not in dist/ yet", fix)
        elif locked.file != built.file.digest or (
            locked.manifests != built.output.digest and locked.hash == built.compiled.identity
        ):
            yield found("TW502", _file(built.file.name), f"run {name} changed since dist/ was written", fix)
    for key, foundation in build.foundations.items():
        entry = lock.foundations.get(key)
        if entry is None or entry.manifests != foundation.output.digest:
            yield found("TW502", _file(foundation.cluster.name), f"the foundation of {key} changed since dist/ was written", fix)
    for name, file in build.done.items():
        if name in lock.runs and lock.runs[name].state != "done":
            yield found("TW502", _file(file.name), f"run {name} is done and still in dist/", fix)
    if build.failed:
        return  # what does not compile at the moment is not gone
    for name in sorted(lock.runs.keys() - build.runs.keys() - build.done.keys()):
        yield found("TW502", _file("charts/trainwright.lock"), f"run {name} is in the lock and has no file any more", fix)
    for key in sorted(lock.foundations.keys() - build.foundations.keys()):
        yield found(
            "TW502", _file("charts/trainwright.lock"), f"the foundation of {key} is in the lock and in no profile any more", fix
        )


def other_files(project: Project, build: Build, lock: Lock) -> dict[str, Literal["stale", "foreign"]]:
    """Files in ``dist/`` that the build does not make, as shown: ours from before (by digest) are stale, the others foreign."""
    expected, ours = set(build.outputs), lock.dist_digests
    others: dict[str, Literal["stale", "foreign"]] = {}
    for path in sorted(project.dist.rglob("*")) if project.dist.is_dir() else []:
        if path.is_file() and path.relative_to(project.dist).as_posix() not in expected:
            stale = path.name.endswith(SUFFIX) and digest(path.read_bytes()) in ours
            others[project.shown(path)] = "stale" if stale else "foreign"
    return others


def edited_files(project: Project, build: Build, lock: Lock) -> list[Output]:
    """Outputs whose file in ``dist/`` is not what the last synth wrote."""
    known = lock.dist_digests
    paths = [(output, project.dist / output.path) for output in build.outputs.values()]
    return [output for output, path in paths if path.is_file() and known and digest(path.read_bytes()) not in known]


def _file(shown: str) -> Where:
    return Where(shown)
