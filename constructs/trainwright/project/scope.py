"""Which runs a command writes, what stands in the way of each, and what stays as it is for the sake of the others.

One run does not hold the others up: a run that does not compile, or would restart, keeps the bytes of its last synth while others
are written. What the runs of a namespace share is then not taken away from under it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from trainwright.findings import CompileError, Finding, Severity
from trainwright.manifest.kinds import ObjectKey
from trainwright.manifest.monitoring import with_runs_of
from trainwright.project.build import build_foundations
from trainwright.project.built import Build, BuiltFoundation, BuiltRun, run_of
from trainwright.project.load import Project
from trainwright.project.record import Records, cluster_path, foundation_path, run_path
from trainwright.project.status import ended_runs, links, moved_runs


class Obstacles(NamedTuple):
    """What stands in the way of writing."""

    all: tuple[Finding, ...]
    """In the order of the files."""
    of_run: Mapping[str, tuple[Finding, ...]]
    """Run -> its own."""
    of_every_run: tuple[Finding, ...]
    """With one of these nothing at all is written."""

    def of(self, runs: Collection[str]) -> tuple[Finding, ...]:
        """Those of some runs, each once."""
        own = (finding for run in runs for finding in self.of_run.get(run, ()))
        return tuple(dict.fromkeys((*own, *self.of_every_run)))


def obstacles(project: Project, build: Build, records: Records, accepted: Collection[str] = ()) -> Obstacles:
    """Errors of runs and profiles, records that cannot be read, runs that would restart unasked, runs that have ended and are to
    be paused, and links in ``dist/``.
    """
    moved = moved_runs(project, build, records, accepted) | ended_runs(build, records)
    linked = tuple(links(project))
    of_run = {name: list(findings) for name, findings in build.failures.items()}
    for name, finding in moved.items():
        of_run.setdefault(name, []).append(finding)
    for path, findings in records.broken.items():
        for name in _behind(path, build):
            of_run.setdefault(name, []).extend(findings)
    errors = [finding for finding in build.findings if finding.severity is Severity.ERROR]
    errors += [finding for findings in records.broken.values() for finding in findings]
    every = tuple(dict.fromkeys((*errors, *moved.values(), *linked)))
    return Obstacles(every, {name: tuple(own) for name, own in of_run.items()}, linked)


def _behind(record: str, build: Build) -> list[str]:
    """The runs that a record matters to: its own, or all of its foundation or cluster."""
    return [
        name for name, built in build.users.items()
        if record in (run_path(name), foundation_path(_place(built)), cluster_path(built.file.run.cluster))
    ]


def _place(built: BuiltRun) -> str:
    return f"{built.file.run.cluster}/{built.file.run.namespace}"


def every_run(build: Build, records: Records) -> frozenset[str]:
    """All that a synth of everything deals with: runs that compile, that do not, that are done, and that are gone."""
    return frozenset((*build.users, *build.failures, *build.done, *records.runs))


class Part(NamedTuple):
    """What is written of a build, and what is left as it is."""

    build: Build
    """Of the chosen runs alone, with the foundations of their namespaces."""
    left: frozenset[str]
    """Runs whose files and records stay."""
    pending: frozenset[str]
    """Those of them that are not what they compile to."""

    def removes(self, path: str) -> bool:
        """Whether a stale file of ``dist/`` goes."""
        run = run_of(path)
        return not self.left if run is None else run not in self.left


def part_of(project: Project, build: Build, records: Records, chosen: Collection[str]) -> Part:
    """The part of a build that is written for the chosen runs.

    Raises:
        CompileError: where the file of a foundation cannot be read, whose objects runs that are left may need.
    """
    left = every_run(build, records) - frozenset(chosen)
    if not left:
        return Part(build, left, left)
    pending = frozenset(name for name in left if not _in_step(name, build, records))
    runs = {name: built for name, built in build.runs.items() if name in chosen}
    paused = {name: built for name, built in build.paused.items() if name in chosen}
    places = {_place(built) for built in (*runs.values(), *paused.values())}
    foundations = {key: entry for key, entry in build.foundations.items() if key in places}
    if pending:
        settled = build_foundations(build.clusters, build.users, pending)
        broken = pending - build.users.keys()
        foundations = {key: _keeping(project, settled[key], broken) for key in foundations if key in settled}
    done = {name: file for name, file in build.done.items() if name in chosen}
    return Part(build._replace(runs=runs, foundations=foundations, paused=paused, done=done), left, pending)


def _in_step(name: str, build: Build, records: Records) -> bool:
    """Whether a run has been written as it compiles."""
    entry, built = records.runs.get(name), build.runs.get(name)
    if name in build.done or name in build.paused:
        return entry is None or entry.state == ("done" if name in build.done else "paused")
    if built is None or name in build.failures:
        return False
    return entry is not None and (entry.identity, entry.manifests) == (built.identity, built.output.digest)


def _keeping(project: Project, entry: BuiltFoundation, broken: Collection[str]) -> BuiltFoundation:
    """With the objects that its file has beside: a run that is left as it is may refer to them. Its alerts go on, too: of the
    runs that do not compile they say what they said.
    """
    path = project.dist / entry.output.path
    if not path.is_file():
        return entry
    from trainwright.validate.manifests import read_manifests  # only where runs are left behind

    manifests, findings = read_manifests(path)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise CompileError(findings)
    before = {ObjectKey.of(manifest.data): manifest.data for manifest in manifests}
    made = {ObjectKey.of(manifest): manifest for manifest in entry.output.manifests}
    own = [with_runs_of(manifest, before.get(key), broken) for key, manifest in made.items()]
    kept: list[dict[str, Any]] = [manifest for key, manifest in before.items() if key not in made]
    provenance = entry.output.provenance
    output = replace(
        entry.output,
        manifests=(*own, *kept),
        provenance=lambda: (*provenance(), *({} for _ in kept)),
    )
    return entry._replace(output=output)
