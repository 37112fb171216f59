"""Everything a project compiles to, in memory, and what its runs must agree on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import PurePath
from typing import NamedTuple, TypeVar

from trainwright.cluster import Cluster
from trainwright.compile import PlannedError, compile_run
from trainwright.findings import CompileError, Finding, Severity
from trainwright.findings.codes import found, one_of
from trainwright.findings.locate import Locator
from trainwright.manifest import foundation
from trainwright.manifest.data.fetching import FETCH_JOB
from trainwright.manifest.kinds import GroupKind, Reasons, reasons_by_kind
from trainwright.manifest.monitoring import watched
from trainwright.manifest.plain import problems
from trainwright.manifest.provenance import Answer, Provenance, split
from trainwright.manifest.template.volumes import payload_provenance
from trainwright.project.argo_cd import build_argo_cd
from trainwright.project.built import (
    NO_RECORDS,
    Apart,
    Build,
    BuiltFoundation,
    BuiltRun,
    Compilation,
    Manifest,
    Output,
    foundation_file,
    run_file,
)
from trainwright.project.clashes import Clash, directories_of_others, duplicates, fetched_twice, refused_by_policies, shared_ports
from trainwright.project.hold import HeldRun, check_held, from_profile
from trainwright.project.load import ClusterFile, RunFile, Sources, Watch, unwatched
from trainwright.project.processors import Spread, alone
from trainwright.project.record import Records
from trainwright.report.facts import plan_facts
from trainwright.report.header import foundation_header, run_header
from trainwright.rules.pods.objects import values_are_plain

T = TypeVar("T")


def build_project(
    sources: Sources, today: date, last: Records = NO_RECORDS, watch: Watch = unwatched, spread: Spread = alone
) -> Build:
    """Compile every run that has not ended, and every foundation; one run's errors do not hide another's.

    ``last`` are the records: they, and the processes that ``spread`` may use, change nothing but how long it takes. ``watch``
    sees the runs go by.
    """
    findings = list(sources.findings)
    runs: dict[str, BuiltRun] = {}
    paused: dict[str, BuiltRun] = {}
    failed: dict[str, tuple[Finding, ...]] = {}
    done = {name: file for name, file in sorted(sources.runs.items()) if file.run.state == "done"}
    due = [(name, file) for name, file in sorted(sources.runs.items()) if name not in done]
    read = sources._replace(policies={}, defaults=None)  # by a run alone
    compiled = spread(partial(_compile_apart, read, today, last), [name for name, _ in due])
    for name, file in watch(due, "compiling runs"):
        outcome = next(compiled)
        if isinstance(outcome, Apart):
            built = _built(file, sources, outcome.joined(file.run, sources.clusters[file.run.cluster].cluster))
            (runs if file.run.state == "active" else paused)[name] = built
            findings += [one for one in built.compiled.findings if not _is_shared(one, file) or one not in findings]
            held = _held_findings(name, built, today)
            failed[name] = tuple(finding for finding in held if finding.severity is Severity.ERROR)
            findings += held
        else:
            failed[name] = outcome
            findings += [finding for finding in outcome if finding not in findings]
    users = {**runs, **paused}
    foundations = build_foundations(sources.clusters, users)
    foundations |= build_argo_cd(sources, users, foundations)
    clashes = duplicates([*(entry.output for entry in foundations.values()), *(entry.output for entry in runs.values())])
    clashes += [Clash(finding, entry.serves) for entry in foundations.values() for finding in _not_plain(entry.output)]
    clashes += [*shared_ports(list(runs.values())), *fetched_twice(list(users.values())), *directories_of_others(runs)]
    clashes += refused_by_policies(sources, runs, today)
    findings += [clash.finding for clash in clashes]
    return Build(runs, foundations, paused, done, sources.clusters, _failures(sources, failed, clashes), tuple(findings))


def _failures(
    sources: Sources, failed: Mapping[str, tuple[Finding, ...]], clashes: Sequence[Clash]
) -> dict[str, tuple[Finding, ...]]:
    """Run -> its errors. What could not be read is known by the name of its file."""
    failures = {name: list(findings) for name, findings in {**sources.unread, **failed}.items()}
    for finding in sources.findings:
        if finding.severity is Severity.ERROR:
            path = PurePath(finding.where.file or "")
            name = path.stem.replace("_", "-")
            own = [name] if path.parent.name in ("runs", "held", "lock") else []
            for run in own + [run for run, file in sources.runs.items() if _of_profile(finding, file.run.cluster)]:
                failures.setdefault(run, []).append(finding)
    for clash in clashes:
        for run in clash.runs if clash.finding.severity is Severity.ERROR else ():
            failures.setdefault(run, []).append(clash.finding)
    return {name: tuple(dict.fromkeys(findings)) for name, findings in failures.items() if findings}


UNREAD = ("TW207",)
"""A field that nothing reads: a default is for those of its runs that read it."""


def build_run(file: RunFile, sources: Sources, today: date, last: Records = NO_RECORDS) -> BuiltRun:
    """One run with its cluster.

    Raises:
        CompileError: with the findings of the run.
    """
    return _built(file, sources, _compile(file, sources, today, last))


def _compile_apart(sources: Sources, today: date, last: Records, run: str) -> Apart | tuple[Finding, ...]:
    """What a run compiles to, or its errors, maybe for another process."""
    try:
        return Apart.of(_compile(sources.runs[run], sources, today, last))
    except CompileError as error:
        return tuple(error.findings)


def _compile(file: RunFile, sources: Sources, today: date, last: Records) -> Compilation:
    try:
        compiled = compile_run(file.run, *_inputs(file, sources, today, last))
    except PlannedError as error:
        raise PlannedError([file.named(finding) for finding in error.findings], error.plan) from error
    except CompileError as error:
        raise CompileError([file.named(finding) for finding in error.findings]) from error
    findings = tuple(file.named(one) for one in compiled.findings if not (one.code in UNREAD and _of_defaults(one, file)))
    compiled = compiled._replace(findings=findings)
    facts = plan_facts(compiled)
    return Compilation(compiled, facts, run_header(file.name, facts))


def _inputs(file: RunFile, sources: Sources, today: date, last: Records) -> tuple[Cluster, Locator, date, str | None]:
    """What a run is compiled with."""
    cluster = sources.clusters.get(file.run.cluster)
    if cluster is None:
        broken = [finding for finding in sources.findings if _of_profile(finding, file.run.cluster)]
        if broken:
            raise CompileError(broken)
        raise CompileError(
            [
                found(
                    "TW110",
                    file.locator(None).run("/cluster"),
                    f"there is no cluster profile {file.run.cluster}",
                    one_of(sources.clusters, f"add charts/clusters/{file.run.cluster}.yaml"),
                )
            ]
        )
    entry = last.runs.get(file.run.run)
    kept = entry.identity if entry is not None and entry.file == file.digest else None
    return cluster.cluster, file.locator(cluster), today, kept


def _built(file: RunFile, sources: Sources, compilation: Compilation) -> BuiltRun:
    """The file that a run becomes."""
    compiled, facts, header = compilation
    cluster = sources.clusters[file.run.cluster]
    locator = file.locator(cluster)
    shared = compiled.shared
    own = [index for index in range(len(compiled.manifests)) if index not in shared]
    held = sources.held.get(file.run.run)
    if held is not None and held.goes_on(file.digest, compiled.identity):
        return BuiltRun(file, cluster, compiled, _copied(file, held, locator), facts)
    output = Output(
        path=_path(file),
        manifests=_pick(compiled.manifests, own),
        provenance=lambda: _pick(compiled.provenance(), own),
        change=file.name,
        reasons=compiled.reasons,
        payloads=partial(payload_provenance, compiled.resolution),
        locator=locator,
        header=header,
    )
    return BuiltRun(file, cluster, compiled, output, facts)


def demand_profile(sources: Sources, cluster: str) -> None:
    """Demand that the profile of a cluster has no errors: what is planned with it could not be written.

    Raises:
        CompileError: with the findings of the profile.
    """
    findings = [finding for finding in sources.findings if _of_profile(finding, cluster)]
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise CompileError(findings)


def _path(file: RunFile) -> str:
    return run_file(file.run.cluster, file.run.namespace, file.run.run)


def _copied(file: RunFile, held: HeldRun, locator: Locator) -> Output:
    """The file of a run that keeps its bytes."""
    why = Answer(f"hold:{held.shown}", f"held as it is: {held.hold.why}")
    return Output(
        path=_path(file),
        manifests=held.manifests,
        provenance=lambda: tuple({"": why} for _ in held.manifests),
        change=held.shown,
        locator=locator,
        held=held,
    )


def _held_findings(name: str, built: BuiltRun, today: date) -> list[Finding]:
    """What there is to say of a held run: its last day, and what the profile has no more of what it needs."""
    if built.held is None:
        return []
    checked = check_held(name, built.held, built.cluster.cluster, built.file.run.namespace)
    return [*built.held.expired(name, today), *checked]


def _pick(items: Sequence[T], indexes: Sequence[int]) -> tuple[T, ...]:
    return tuple(items[index] for index in indexes)


def _of_defaults(finding: Finding, file: RunFile) -> bool:
    """Whether it is of what several runs have in common, which is said once."""
    return file.defaulted.file is not None and finding.where.file == file.defaulted.file


def _is_shared(finding: Finding, file: RunFile) -> bool:
    return _of_defaults(finding, file) or _of_profile(finding, file.run.cluster)


def _of_profile(finding: Finding, cluster: str) -> bool:
    path = PurePath(finding.where.file or "")
    return path.parent.name == "clusters" and path.stem == cluster


def build_foundations(
    clusters: Mapping[str, ClusterFile], runs: Mapping[str, BuiltRun], pending: Collection[str] = ()
) -> dict[str, BuiltFoundation]:
    """What must be there before runs: the managed objects of every profile, what watches the runs, then what runs share.

    What runs that are ``pending`` would share is left out: their files stay as they are.
    """
    built = {}
    for name, file in sorted(clusters.items()):
        for namespace in sorted(file.cluster.namespaces):
            in_namespace = [run for run in runs.values() if (run.file.run.cluster, run.file.run.namespace) == (name, namespace)]
            seen = [one for run in in_namespace if (one := watched(run.compiled.resolution))]
            parts = [split(tree) for tree in foundation.foundation(file.cluster, namespace, seen)]
            here = [run for run in in_namespace if run.file.run.run not in pending]
            shared = dict(_shared([run for run in here if run.held is None]))
            kept = _kept(here, shared)
            if parts or shared or kept:
                key = f"{name}/{namespace}"
                output = Output(
                    path=foundation_file(key),
                    manifests=(*(plain for plain, _ in parts), *(one.manifest for one in shared.values()), *kept),
                    provenance=partial(_provenance, parts, tuple(shared.values()), len(kept)),
                    change=file.name,
                    reasons=_reasons(shared.values()),
                    locator=Locator(cluster_file=file.name, cluster_positions=file.positions),
                    header=foundation_header(file.name),
                    locators={len(parts) + number: one.run.output.locator for number, one in enumerate(shared.values())},
                )
                built[key] = BuiltFoundation(key, tuple(run.file.run.run for run in here), output)
    return built


class _Shared(NamedTuple):
    """An object that runs of one shape share, as the first of them made it."""

    run: BuiltRun
    number: int

    @property
    def manifest(self) -> Manifest:
        return self.run.compiled.manifests[self.number]


def _not_plain(output: Output) -> Iterator[Finding]:
    """What a profile states and no YAML can hold; the objects of runs have been looked at with their runs."""
    if any(problem for manifest in output.manifests for problem in problems(manifest)):  # only then the reasons are made
        yield from values_are_plain(output.manifests, output.provenance(), output.locator)


def _provenance(parts: Sequence[tuple[Manifest, Provenance]], shared: Sequence[_Shared], kept: int) -> tuple[Provenance, ...]:
    """Of a foundation's own objects, then of those that runs share, then of those that only held runs need."""
    of_shared = (one.run.compiled.provenance()[one.number] for one in shared)
    return (*(answers for _, answers in parts), *of_shared, *({"": KEPT} for _ in range(kept)))


KEPT = Answer("hold:charts/held", "a held run needs it")


def _kept(runs: Sequence[BuiltRun], shared: Mapping[str, _Shared]) -> list[Manifest]:
    """Objects named by their content that held runs need and no other run makes any more."""
    kept: dict[str, Manifest] = {}
    for manifest in (one for run in runs if run.held for one in run.held.needed if not from_profile(one)):
        name = manifest["metadata"]["name"]
        if name not in shared:
            kept.setdefault(name, manifest)
    return [manifest for _, manifest in sorted(kept.items())]


def _reasons(shared: Iterable[_Shared]) -> dict[GroupKind, Reasons]:
    """For the constants of a foundation: of the targets whose objects are in it, of its own, and of the Jobs that fetch data."""
    targets = {one.run.compiled.target.name: one.run.compiled.target for one in shared}
    return reasons_by_kind((*(kind for target in targets.values() for kind in target.kinds), *foundation.KINDS, FETCH_JOB))


def _shared(runs: Sequence[BuiltRun]) -> Iterator[tuple[str, _Shared]]:
    """By name, which follows from the content: one of each."""
    seen: dict[str, _Shared] = {}
    for run in runs:
        for index in run.compiled.shared:
            one = _Shared(run, index)
            seen.setdefault(one.manifest["metadata"]["name"], one)
    yield from sorted(seen.items())


