"""From the one lock of older releases to a record for each run. No identity moves."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from trainwright.findings import CompileError
from trainwright.findings.codes import found
from trainwright.model import Model
from trainwright.project.built import Build, BuiltRun
from trainwright.project.load import Project
from trainwright.project.record import ClusterRecord, Digest, FoundationRecord, Records, RunRecord, read_records
from trainwright.project.status import cluster_records
from trainwright.project.synth import workspace, write_records
from trainwright.reading import validate
from trainwright.reading.document import read_yaml
from trainwright.report.facts import finding_facts, plan_facts


class LockedRun(Model):
    file: Digest
    hash: str
    state: Literal["active", "done"] = "active"
    manifests: Digest = ""
    dist: Digest = ""


class LockedFoundation(Model):
    manifests: Digest
    dist: Digest


class Lock(Model):
    """``charts/trainwright.lock``: everything that the last synth wrote."""

    lock: Literal[1] = 1
    foundations: dict[str, LockedFoundation] = Field(default_factory=dict)
    runs: dict[str, LockedRun] = Field(default_factory=dict)


def migrate(project: Project, build: Build) -> tuple[str, ...]:
    """Write a record for each entry of the lock that has none, and remove the lock last. Nothing in ``dist/`` is touched.

    Returns:
        Paths of the new records, below their folder.

    Raises:
        CompileError: TW506, where the lock or a record cannot be read; nothing is touched then.
        OSError: where the disk refuses.
    """
    before = read_records(project.records, project.shown)
    if before.broken:
        raise CompileError([finding for findings in before.broken.values() for finding in findings])
    lock = _read_lock(project)
    runs = {name: _run(entry, build.runs.get(name)) for name, entry in lock.runs.items() if entry.hash}
    foundations = {key: FoundationRecord(manifests=entry.manifests, dist=entry.dist) for key, entry in lock.foundations.items()}
    after = Records(
        runs={**runs, **before.runs},
        foundations={**foundations, **before.foundations},
        clusters={**_clusters(build, lock), **before.clusters},
    )
    with workspace(project) as fresh:
        write_records(project, before, after, fresh)
        project.old_lock.unlink()
    return tuple(sorted(after.paths.keys() - before.paths.keys()))


def _run(entry: LockedRun, built: BuiltRun | None) -> RunRecord:
    """What the lock knows, and the facts of the plan where it is still the one that was written."""
    same = built is not None and (built.file.digest, built.compiled.identity) == (entry.file, entry.hash)
    return RunRecord(
        state=entry.state, identity=entry.hash, file=entry.file, manifests=entry.manifests, dist=entry.dist,
        facts=plan_facts(built.compiled) if built and same else {},
        findings=finding_facts(built.compiled) if built and same else None,
    )


def _clusters(build: Build, lock: Lock) -> Mapping[str, ClusterRecord]:
    """Profiles with which every run of their cluster has the identity that the lock knows: they are as last compiled."""
    moved = {
        built.file.run.cluster for name, built in build.runs.items()
        if name in lock.runs and lock.runs[name].hash != built.compiled.identity
    }
    return {} if build.failed else {name: entry for name, entry in cluster_records(build).items() if name not in moved}


def _read_lock(project: Project) -> Lock:
    path = project.old_lock
    try:
        return validate(Lock, read_yaml(path, project.shown(path)))
    except CompileError as error:
        first = error.findings[0]
        merge = any(line.startswith(b"<<<<<<<") for line in path.read_bytes().splitlines())
        message = "it holds the marks of a merge conflict" if merge else first.message
        fix = "keep both sides' lines of runs (a run that both have: either line), then run `trainwright migrate`"
        finding = found("TW506", first.where, f"the lock cannot be read: {message}", fix if merge else "restore it from git")
        raise CompileError([finding]) from error
