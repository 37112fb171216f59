"""The runs of a project and the objects of a snapshot, held against each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trainwright.cluster.runtimes import KINDS, digest_of
from trainwright.findings import CompileError
from trainwright.findings.locate import Locator
from trainwright.live.case import Case, carriers, case_of
from trainwright.live.snapshot import Object, Snapshot
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.labels import RUN_LABEL
from trainwright.manifest.written import values
from trainwright.objects.fields import mapping
from trainwright.operators import TARGETS
from trainwright.plan import Resolution
from trainwright.project.built import SUFFIX
from trainwright.project.load import Project, load_sources_for
from trainwright.project.record import RunRecord


class Expected(NamedTuple):
    """An active run, as its record has it."""

    run: str
    record: RunRecord

    @property
    def cluster(self) -> str:
        return str(self.record.facts.get("cluster", ""))

    @property
    def namespace(self) -> str:
        return str(self.record.facts.get("namespace", ""))

    @property
    def name(self) -> str:
        """Of the object that carries it."""
        return f"{self.run}-{self.record.identity}"

    @property
    def kind(self) -> GroupKind:
        target = str(self.record.facts.get("target", ""))
        return TARGETS[target].kind if target in TARGETS else GroupKind("batch", "Job")


def expected(records: Mapping[str, RunRecord]) -> list[Expected]:
    """What ``dist/`` has, by run."""
    return [Expected(run, record) for run, record in sorted(records.items()) if record.state == "active"]


def case_for(snapshot: Snapshot, run: Expected) -> Case:
    """The case of a run of the project, which may not be there."""
    manifest = snapshot.get(run.kind, run.namespace, run.name)
    return Case(snapshot, run.run, run.namespace, run.name, run.kind, manifest)


def strangers(snapshot: Snapshot, runs: Sequence[Expected]) -> Iterator[Case]:
    """Objects that carry runs of ours and are not in ``dist/``: of a run that was removed, or an identity that was replaced."""
    known = {(run.namespace, run.name) for run in runs}
    for one in carriers(snapshot):
        if (one["metadata"].get("namespace", ""), one["metadata"]["name"]) not in known:
            yield case_of(snapshot, str(mapping(one, "/metadata/labels")[RUN_LABEL]), one)


def changed_runtimes(snapshot: Snapshot, runs: Sequence[Expected]) -> Iterator[str]:
    """Installed runtimes that are not those which runs are compiled for; of one that the snapshot lacks nothing is known."""
    by_runtime: dict[str, list[Expected]] = {}
    for run in runs:
        by_runtime.setdefault(str(run.record.facts.get("runtime", "")), []).append(run)
    for runtime, its_runs in by_runtime.items():
        name, _, digest = runtime.partition("@")
        places = {"", *(run.namespace for run in its_runs)}
        there = [one for one in snapshot.objects if one["kind"] in KINDS and one["metadata"]["name"] == name]
        found = [digest_of(one) for one in there if one["metadata"].get("namespace", "") in places]
        if found and digest not in found:
            yield (f"runtime {name} of the cluster is another one than {', '.join(run.run for run in its_runs)} had in mind: "
                   "hold its file against it with `trainwright runtimes`")  # fmt: skip


def of_cluster(snapshot: Snapshot, runs: Sequence[Expected]) -> list[Expected]:
    """The runs of the cluster that a snapshot is of, which it does not name: of that whose objects it has most of.

    Events tell of those that are gone. Where it has none of any, those whose namespaces are in it.
    """
    cases = [(run, case_for(snapshot, run)) for run in runs]
    there = [run for run, case in cases if case.manifest is not None] or [run for run, case in cases if case.events]
    named = {str(one["metadata"]["name"]) for one in snapshot.objects if one["kind"] == "Namespace"}
    named |= {str(one["metadata"].get("namespace")) for one in snapshot.objects}
    clusters = [run.cluster for run in there]
    if clusters:
        most = max(set(clusters), key=clusters.count)
        return [run for run in runs if run.cluster == most and (run.namespace in named or run in there)]
    return [run for run in runs if run.namespace in named]


def written_for(project: Project, run: Expected) -> list[Object]:
    """Objects in its file of ``dist/`` and in that of its foundation; every scalar is text."""
    read = (one for path in _files(project, run) for one in _read(path))
    return [one for one in read if isinstance(one, dict) and "metadata" in one and "kind" in one]


def typed_for(project: Project, run: Expected) -> list[Object]:
    """The same with numbers as numbers, which takes ten times as long.

    Raises:
        CompileError: where a file cannot be read.
    """
    from trainwright.validate.manifests import read_objects  # only where pods are made of them

    return [one for path in _files(project, run) for one in read_objects(path)]


def planned(project: Project, run: str) -> Resolution:
    """What its file says now: which pods hold which ranks.

    Raises:
        CompileError: where it does not compile.
    """
    from trainwright.plan import resolve  # only where somebody asks for a rank

    sources = load_sources_for(project, run)
    if run not in sources.runs:
        raise CompileError([])
    asked = sources.runs[run].run
    return resolve(asked, sources.clusters[asked.cluster].cluster, TARGETS, run, Locator())


def _files(project: Project, run: Expected) -> list[Path]:
    place = project.dist / run.cluster / run.namespace
    return [place / "runs" / f"{run.run}{SUFFIX}", *sorted((place / "foundation").glob(f"*{SUFFIX}"))]


def _read(path: Path) -> list[Object]:
    return list(values(path.read_text(encoding="utf-8"))) if path.is_file() else []
