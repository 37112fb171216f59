"""Everything a project compiles to, in memory, and what its runs must agree on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError, Finding, Severity, Where
from trainwright.findings.codes import found, one_of
from trainwright.findings.locate import Locator, escape
from trainwright.manifest import foundation
from trainwright.manifest.data.fetching import FETCH_JOB, job_name
from trainwright.manifest.kinds import GroupKind, ObjectKey, Reasons, reasons_by_kind
from trainwright.manifest.monitoring import watched
from trainwright.manifest.plain import problems
from trainwright.manifest.provenance import Answer, Provenance, split
from trainwright.manifest.template.containers import stated_images
from trainwright.manifest.template.volumes import payload_provenance
from trainwright.model import Fact
from trainwright.project.hold import HeldRun, check_held, from_profile
from trainwright.project.load import ClusterFile, RunFile, Sources, Watch, unwatched
from trainwright.project.record import Digest, Records, cluster_path, foundation_path, manifests_digest, run_path
from trainwright.project.start import directories_of_others
from trainwright.report.facts import plan_facts
from trainwright.report.header import foundation_header, run_header
from trainwright.rules.pods.objects import values_are_plain

if TYPE_CHECKING:
    from trainwright.policy import PolicyRun

Manifest = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)  # without slots, so that the digest can be kept
class Output:
    """One file of ``dist/``."""

    path: str
    """Below ``dist/``, with forward slashes."""
    manifests: tuple[Manifest, ...]
    provenance: Callable[[], tuple[Provenance, ...]]
    """Makes one map for each manifest."""
    change: str
    """The file that a person edits to change this one."""
    reasons: Mapping[GroupKind, Reasons] = field(default_factory=dict)
    """Why the constants in each kind of object are as they are."""
    payloads: Mapping[str, Provenance] = field(default_factory=dict)
    """Key of a ConfigMap -> where the values inside that JSON file come from."""
    locator: Locator = field(default_factory=Locator)
    locators: Mapping[int, Locator] = field(default_factory=dict)
    """Index of an object -> where the run that made it is written, in a file with objects of several runs."""
    held: HeldRun | None = None
    """What is copied as it is, where the run is held."""
    header: str = ""
    """Comments above the objects; a held run's bytes have theirs."""

    @cached_property
    def digest(self) -> Digest:
        return manifests_digest(self.manifests) if self.held is None else self.held.record.manifests

    @property
    def run(self) -> str | None:
        """The run that the file is of; None for a foundation."""
        return run_of(self.path)

    @property
    def foundation(self) -> str:
        """``<cluster>/<namespace>``: the foundation that the file is, or that its run needs."""
        return "/".join(self.path.split("/")[:2])


class BuiltRun(NamedTuple):
    """A run that compiled, with the files that it is from and becomes."""

    file: RunFile
    cluster: ClusterFile
    compiled: CompiledRun
    """What today's inputs give."""
    output: Output
    facts: Mapping[str, Fact]
    """What today's plan states."""

    @property
    def held(self) -> HeldRun | None:
        """What is kept of it, where it is held."""
        return self.output.held

    @property
    def identity(self) -> str:
        """The hash in the names of its objects in ``dist/``."""
        return self.compiled.identity if self.held is None else self.held.record.identity


class BuiltFoundation(NamedTuple):
    """What must be in a namespace before its runs."""

    key: str
    """``<cluster>/<namespace>``."""
    cluster: ClusterFile
    serves: tuple[str, ...]
    """The runs of the namespace."""
    output: Output


class Build(NamedTuple):
    """All outputs, and all findings in the order of the files."""

    runs: dict[str, BuiltRun]
    foundations: dict[str, BuiltFoundation]
    done: dict[str, RunFile]
    """Runs whose state is done: they keep their records, and are not emitted."""
    clusters: dict[str, ClusterFile]
    """Every profile that could be read."""
    failures: dict[str, tuple[Finding, ...]]
    """Run -> its errors, those of its profile and of its foundation among them. No other run is held up by them."""
    findings: tuple[Finding, ...]

    @property
    def outputs(self) -> dict[str, Output]:
        """Path below ``dist/`` -> output."""
        outputs = [*(entry.output for entry in self.foundations.values()), *(entry.output for entry in self.runs.values())]
        return {output.path: output for output in outputs}

    @property
    def idle(self) -> list[str]:
        """Paths below ``dist/`` of the files that keep a folder for runs where a namespace has none.

        Argo CD cannot sync a folder that is gone, and Git has no empty ones: the last run would go on training.
        """
        active = {entry.output.foundation for entry in self.runs.values()}
        known = {f"{name}/{namespace}" for name, file in self.clusters.items() for namespace in file.cluster.namespaces}
        return [f"{key}/runs/{KEEPS_FOLDER}" for key in sorted(known - active)]

    @property
    def recorded(self) -> frozenset[str]:
        """Paths of the records that there must be, below their folder; of a run that is done there may be one."""
        runs = (run_path(name) for name in (*self.runs, *self.done))
        return frozenset((*runs, *map(foundation_path, self.foundations), *map(cluster_path, self.clusters)))

    @property
    def failed(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self.findings)


SUFFIX = ".k8s.yaml"
KEEPS_FOLDER = ".gitkeep"
NO_RECORDS = Records()


def run_of(path: str) -> str | None:
    """The run that a file of ``dist/`` is called after, by a path with forward slashes; None for another file."""
    folder, _, name = path.rpartition("/")
    return name.removesuffix(SUFFIX) if folder.endswith("/runs") and name.endswith(SUFFIX) else None


def build_project(sources: Sources, today: date, last: Records = NO_RECORDS, watch: Watch = unwatched) -> Build:
    """Compile every active run and every foundation; one run's errors do not hide another's.

    ``last`` are the records: they change nothing but how long it takes. ``watch`` sees the runs go by.
    """
    findings = list(sources.findings)
    runs: dict[str, BuiltRun] = {}
    done: dict[str, RunFile] = {}
    failed: dict[str, tuple[Finding, ...]] = {}
    for name, file in watch(sorted(sources.runs.items()), "compiling runs"):
        if file.run.state == "done":
            done[name] = file
            continue
        try:
            runs[name] = build_run(file, sources, today, last)
            findings += [one for one in runs[name].compiled.findings if not _is_shared(one, file) or one not in findings]
            held = _held_findings(name, runs[name], today)
            failed[name] = tuple(finding for finding in held if finding.severity is Severity.ERROR)
            findings += held
        except CompileError as error:
            failed[name] = tuple(error.findings)
            findings += [finding for finding in error.findings if finding not in findings]
    foundations = build_foundations(sources.clusters, runs)
    clashes = duplicates([*(entry.output for entry in foundations.values()), *(entry.output for entry in runs.values())])
    clashes += [Clash(finding, entry.serves) for entry in foundations.values() for finding in _not_plain(entry.output)]
    clashes += [*shared_ports(list(runs.values())), *fetched_twice(list(runs.values()))]
    known = {name: (run.held.record.facts if run.held else run.facts, run.output.locator) for name, run in runs.items()}
    clashes += [Clash(finding, names) for finding, names in directories_of_others(known)]
    clashes += refused_by_policies(sources, runs, today)
    findings += [clash.finding for clash in clashes]
    return Build(runs, foundations, done, sources.clusters, _failures(sources, failed, clashes), tuple(findings))


class Clash(NamedTuple):
    """What several runs must agree on, and do not, or what a policy refuses: of each of them."""

    finding: Finding
    runs: tuple[str, ...]


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
    try:
        built = _build_run(file, sources, today, last)
    except CompileError as error:
        raise CompileError([file.named(finding) for finding in error.findings], error.plan) from error
    findings = tuple(file.named(one) for one in built.compiled.findings if not (one.code in UNREAD and _of_defaults(one, file)))
    return built if findings == built.compiled.findings else built._replace(compiled=built.compiled._replace(findings=findings))


def _build_run(file: RunFile, sources: Sources, today: date, last: Records) -> BuiltRun:
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
    locator = file.locator(cluster)
    entry = last.runs.get(file.run.run)
    kept = entry.identity if entry is not None and entry.file == file.digest else None
    compiled = compile_run(file.run, cluster.cluster, locator, today, kept)
    own = [index for index in range(len(compiled.manifests)) if index not in compiled.shared]
    held = sources.held.get(file.run.run)
    facts = plan_facts(compiled)
    if held is not None and held.goes_on(file.digest, compiled.identity):
        return BuiltRun(file, cluster, compiled, _copied(file, held, locator), facts)
    output = Output(
        path=_path(file),
        manifests=_pick(compiled.manifests, own),
        provenance=lambda: _pick(compiled.provenance(), own),
        change=file.name,
        reasons=compiled.reasons,
        payloads=payload_provenance(compiled.resolution),
        locator=locator,
        header=run_header(file.name, facts),
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
    return f"{file.run.cluster}/{file.run.namespace}/runs/{file.run.run}{SUFFIX}"


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
                    path=f"{key}/foundation/{namespace}{SUFFIX}",
                    manifests=(*(plain for plain, _ in parts), *(one.manifest for one in shared.values()), *kept),
                    provenance=partial(_provenance, parts, tuple(shared.values()), len(kept)),
                    change=file.name,
                    reasons=_reasons(shared.values()),
                    locator=Locator(cluster_file=file.name, cluster_positions=file.positions),
                    header=foundation_header(file.name),
                    locators={len(parts) + number: one.run.output.locator for number, one in enumerate(shared.values())},
                )
                built[key] = BuiltFoundation(key, file, tuple(run.file.run.run for run in here), output)
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


def shared_ports(runs: Sequence[BuiltRun]) -> list[Clash]:
    """Runs on the node's network that can meet on a node must not listen on the same ports; whole nodes are nobody else's."""
    seen: dict[tuple[str, str, int], BuiltRun] = {}
    clashes = []
    for run in runs:
        plan, gpu = run.compiled.plan, run.compiled.resolution.pool.gpu
        if not run.file.run.host_network or (gpu and plan.world.gpus_per_node == gpu.per_node):
            continue
        other = seen.setdefault((plan.cluster, plan.world.pool, plan.rendezvous.http_port), run)
        if other is not run:
            there = f"on the network of the nodes of pool {plan.world.pool}"
            message = f"{there}, this run has the same ports as run {other.file.run.run}"
            fix = "rename one of the two: ports follow from the name; or take whole nodes"
            finding = found("TW608", run.output.locator.run("/host_network"), message, fix)
            clashes.append(Clash(finding, (other.file.run.run, run.file.run.run)))
    return clashes


def duplicates(outputs: Sequence[Output]) -> list[Clash]:
    """One object may come from one file only, in each cluster."""
    seen: dict[tuple[str, ...], Output] = {}
    clashes = []
    for output in outputs:
        cluster = output.path.partition("/")[0]
        for manifest in output.manifests:
            _, kind, _, name = identity = ObjectKey.of(manifest)
            key = (cluster, *identity)
            if key in seen:
                message = f"{kind} {name} is also made from {seen[key].change}"
                finding = found("TW507", Where(output.change), message, "rename one of the two")
                clashes.append(Clash(finding, tuple(run for run in (seen[key].run, output.run) if run)))
            seen.setdefault(key, output)
    return clashes


def refused_by_policies(sources: Sources, runs: Mapping[str, BuiltRun], today: date) -> Iterator[Clash]:
    """What the platform team's policies find in the runs; a policy that fails is an error of all runs."""
    if not sources.policies:
        return
    from trainwright.policy.check import check_policy  # most projects have none

    seen = [_for_policies(built) for built in runs.values()]
    locators = {name: built.output.locator for name, built in runs.items()}
    for file in sources.policies.values():
        try:
            yield from (Clash(finding, names) for finding, names in check_policy(file, seen, locators, today))
        except CompileError as error:
            yield from (Clash(finding, tuple(runs)) for finding in error.findings)


def _for_policies(built: BuiltRun) -> PolicyRun:
    """A run as it is, or will be, in ``dist/``; objects that it shares with others are in its own."""
    from trainwright.policy import PolicyRun
    from trainwright.target.added import pods_made

    run, held = built.file.run, built.held
    facts = built.facts if held is None else held.record.facts
    own = built.compiled.manifests if held is None else (*held.manifests, *held.needed)
    queue, gpus = facts.get("queue"), facts.get("gpus", 0)
    return PolicyRun(
        name=run.run,
        team=str(facts["team"]),
        cluster=run.cluster,
        namespace=run.namespace,
        queue=None if queue is None else str(queue),
        gpus=int(gpus),
        facts=facts,
        manifests=tuple(own),
        pods=tuple(pod for manifest in own for pod in pods_made(manifest, built.cluster.cluster)),
        images=stated_images(built.compiled.resolution),
    )


def fetched_twice(runs: Sequence[BuiltRun]) -> list[Clash]:
    """Two Jobs that fetch the same data differ in tool, credentials or size, and would copy it side by side."""
    seen: dict[tuple[str, str, str, str], tuple[str, str, str]] = {}
    clashes = []
    for run in runs:
        resolution = run.compiled.resolution
        for data in resolution.plan.data:
            place = (resolution.plan.cluster, resolution.plan.namespace, data.claim, data.folder)
            own = (job_name(resolution, data), run.file.run.run, data.path)
            other = seen.setdefault(place, own)
            if other[0] != own[0]:
                finding = found(
                    "TW242",
                    run.output.locator.run(f"/prepare/{escape(data.path)}"),
                    f"run {other[1]} fetches the same data into the same folder ({other[2]}) with other settings",
                    "write the same image, credentials, service_account, region, cpu, memory and image_pull_secrets in both",
                )
                clashes.append(Clash(finding, (other[1], own[1])))
    return clashes
