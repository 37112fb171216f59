"""A project on disk: cluster profiles and runs under ``charts/``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from trainwright.cluster import Cluster
from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import NO_DEFAULTS, Defaulted, Locator, Positions
from trainwright.model import Fact, closest
from trainwright.project.hold import HeldRun, read_held
from trainwright.project.record import Digest, digest
from trainwright.project.runtimes import with_runtimes
from trainwright.reading import validate
from trainwright.reading.document import read_yaml
from trainwright.report.facts import default_facts
from trainwright.rules.cluster.profile import check_profile
from trainwright.run import Run

if TYPE_CHECKING:
    from trainwright.gitops.load import GitOpsFile
    from trainwright.policy.load import PolicyFile
    from trainwright.reading.defaults import DefaultsFile

T = TypeVar("T")


class Watch(Protocol):
    """Passes items on, and may show how far they are."""

    def __call__(self, items: Sequence[T], what: str, /) -> Iterable[T]: ...


def unwatched(items: Sequence[T], what: str) -> Iterable[T]:
    return items


class ClusterFile(NamedTuple):
    """A cluster profile, as read."""

    path: Path
    name: str
    """The path as shown to people: relative to the project."""
    cluster: Cluster
    positions: Positions


class RunFile(NamedTuple):
    """A run, as read."""

    path: Path
    name: str
    run: Run
    positions: Positions
    digest: Digest
    defaulted: Defaulted = NO_DEFAULTS
    """What it has from the defaults; it is in ``run`` too."""
    several: bool = False
    """Whether the file is a module with several runs."""

    def named(self, finding: Finding) -> Finding:
        """A finding of the run, which says of which run of its file it is."""
        if not self.several or finding.where.file != self.name:
            return finding
        return finding._replace(message=f"{self.run.run}: {finding.message}")

    @property
    def defaults(self) -> dict[str, Fact] | None:
        """What its record says of the defaults that it has; None where it has none."""
        return default_facts(self.defaulted.values) or None

    def locator(self, cluster: ClusterFile | None) -> Locator:
        return Locator(
            run_file=self.name,
            run_positions=self.positions,
            cluster_file=cluster.name if cluster else None,
            cluster_positions=cluster.positions if cluster else {},
            defaulted=self.defaulted,
        )


class Project(NamedTuple):
    """Where everything is."""

    root: Path

    @property
    def clusters(self) -> Path:
        return self.root / "charts" / "clusters"

    @property
    def runs(self) -> Path:
        return self.root / "charts" / "runs"

    @property
    def defaults(self) -> Path:
        """What runs have in common: see :mod:`trainwright.reading.defaults`. There need not be such a file."""
        return self.root / "charts" / "defaults.yaml"

    @property
    def policies(self) -> Path:
        """What the platform team demands of runs: see :mod:`trainwright.policy`."""
        return self.root / "charts" / "policies"

    @property
    def gitops(self) -> Path:
        """What Argo CD is told: see :mod:`trainwright.gitops`. There need not be such a file."""
        return self.root / "charts" / "gitops.yaml"

    @property
    def records(self) -> Path:
        """What the last synth made of each run: see :mod:`trainwright.project.record`."""
        return self.root / "charts" / "lock"

    @property
    def held(self) -> Path:
        """What is kept of runs that are held: see :mod:`trainwright.project.hold`."""
        return self.root / "charts" / "held"

    @property
    def dist(self) -> Path:
        return self.root / "dist"

    def shown(self, path: Path) -> str:
        """A path as people read it: relative to the project where it lies inside."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.as_posix()


class Sources(NamedTuple):
    """Every profile and every run that could be read, and what is wrong with the others."""

    clusters: dict[str, ClusterFile]
    runs: dict[str, RunFile]
    findings: tuple[Finding, ...]
    held: Mapping[str, HeldRun] = {}
    """What is held of each run that is."""
    defaults: DefaultsFile | None = None
    unread: Mapping[str, tuple[Finding, ...]] = {}
    """Run -> why it could not be read, where that is not in a file of its name."""
    policies: Mapping[str, PolicyFile] = {}
    """Code -> what the platform team demands of runs."""
    gitops: GitOpsFile | None = None


def find_project(start: Path) -> Project:
    """The nearest folder, from ``start`` upwards, that has ``charts/``.

    Raises:
        CompileError: where there is none.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / "charts" / "runs").is_dir() or (folder / "charts" / "clusters").is_dir():
            return Project(folder)
    where = Where(str(start))
    raise CompileError(
        [
            found(
                "TW101",
                where,
                f"no project here: there is no charts/runs in {start} or above it",
                "run this inside a project, name one with --project, or make one with `trainwright new DIR`",
            )
        ]
    )


RUN_SUFFIXES = (".yaml", ".yml", ".py")
PROFILE_SUFFIXES = (".yaml", ".yml")


def load_sources(project: Project, watch: Watch = unwatched) -> Sources:
    """Read all files; a file that cannot be read becomes findings and does not hide the others."""
    profiles = sorted(path for suffix in PROFILE_SUFFIXES for path in project.clusters.glob(f"*{suffix}"))
    files = sorted(path for path in project.runs.glob("*") if path.suffix in RUN_SUFFIXES and not path.name.startswith("_"))
    held, findings = read_held(project.held, project.records, project.shown)
    clusters = _clusters(project, profiles, findings)
    gitops = _gitops(project, findings, clusters if len(clusters) == len(profiles) else None)
    try:
        defaults = _defaults(project)
    except CompileError as error:  # said once, and not for each run that would be incomplete
        names = dict.fromkeys(name for path in files for name in _recorded_of(project, path))
        unread = dict.fromkeys(names, error.findings)
        return Sources(clusters, {}, (*findings, *error.findings), held, unread=unread, gitops=gitops)
    policies = _policies(project, findings)
    findings += _for_nobody(defaults, policies, _names(clusters)) if len(clusters) == len(profiles) else ()
    runs, unread = _runs(project, watch(files, "reading runs"), findings, defaults)
    if not unread and len(clusters) == len(profiles):
        findings += _for_nobody(defaults, policies, _names_of_runs(runs, clusters))
    return Sources(clusters, runs, tuple(findings), held, defaults, unread, policies, gitops)


def load_sources_for(project: Project, run: str) -> Sources:
    """One run and its cluster's profile, if they can be found by their file names; otherwise everything."""
    stems = (run, run.replace("-", "_")) if re.fullmatch(r"[-a-z0-9]{1,40}", run) else ()  # a name is no path
    files = [path for stem in stems for suffix in RUN_SUFFIXES if (path := project.runs / f"{stem}{suffix}").is_file()]
    files = files or [path for path in project.runs.glob("[!_]*.py") if run.startswith(f"{name_of(path)}-")]
    held, findings = read_held(project.held, project.records, project.shown)
    try:
        defaults = _defaults(project)
    except CompileError:
        return load_sources(project)
    runs = _runs(project, files, findings, defaults)[0] if len(files) == 1 else {}
    if run not in runs:
        return load_sources(project)
    cluster = runs[run].run.cluster
    profiles = [path for suffix in PROFILE_SUFFIXES if (path := project.clusters / f"{cluster}{suffix}").is_file()]
    if not profiles:
        return load_sources(project)
    clusters, policies = _clusters(project, profiles, findings), _policies(project, findings)
    return Sources(clusters, runs, tuple(findings), held, defaults, policies=policies)


def _defaults(project: Project) -> DefaultsFile | None:
    """None where there is no such file.

    Raises:
        CompileError: where there is one that cannot be used.
    """
    path = project.defaults
    if not _there(project, path):
        return None
    from trainwright.reading.defaults import read_defaults  # a model of all that can be a default takes its time to load

    return read_defaults(path, project.shown(path))


def _there(project: Project, path: Path) -> bool:
    """Whether there is a file of a fixed name.

    Raises:
        CompileError: where it has another suffix, and would silently not be read.
    """
    other = path.with_suffix(".yml")
    if other.exists():
        message = f"{project.shown(other)} is not read"
        raise CompileError([found("TW101", Where(project.shown(other)), message, f"rename it to {path.name}")])
    return path.exists()


def _gitops(project: Project, findings: list[Finding], clusters: Collection[str] | None) -> GitOpsFile | None:
    """None where there is no such file, or where it cannot be used: what is wrong with it is added to the findings."""
    try:
        if not _there(project, project.gitops):
            return None
        from trainwright.gitops.load import read_gitops

        return read_gitops(project.gitops, project.shown(project.gitops), clusters)
    except CompileError as error:
        findings += error.findings
        return None


def _policies(project: Project, findings: list[Finding]) -> dict[str, PolicyFile]:
    """Code -> policy. What is wrong with those that cannot be read is added to the findings."""
    if not project.policies.exists():
        return {}
    from trainwright.policy.load import load_policies

    return load_policies(project.policies, project.shown, findings)


class _Names(NamedTuple):
    """What defaults or policies may be for."""

    group: str
    code: str
    """Of the finding about one that is not there."""
    names: Collection[str]
    where: str
    """Who would have it."""


def _names(clusters: Mapping[str, ClusterFile]) -> list[_Names]:
    namespaces = sorted({name for file in clusters.values() for name in file.cluster.namespaces})
    return [_Names("clusters", "TW110", list(clusters), "profile"), _Names("namespaces", "TW303", namespaces, "profile")]


def _names_of_runs(runs: Mapping[str, RunFile], clusters: Mapping[str, ClusterFile]) -> list[_Names]:
    spaces = [space for file in clusters.values() for space in file.cluster.namespaces.values()]
    queues = {name for space in spaces for name in space.queues} | {file.run.queue for file in runs.values() if file.run.queue}
    teams = {file.run.team for file in runs.values()}
    return [_Names("teams", "TW617", sorted(teams), "run"), _Names("queues", "TW617", sorted(queues), "profile")]


def _for_nobody(defaults: DefaultsFile | None, policies: Mapping[str, PolicyFile], known: Sequence[_Names]) -> Iterator[Finding]:
    """Defaults and policies of what is not there: a misspelt name would silently mean nothing."""
    for group, code, names, having in known:
        kind = group.removesuffix("s")
        for name, where, said, what in (*_defaults_of(group, defaults), *_policies_of(group, policies)):
            if name not in names:
                near = closest(name, names)
                hint = f"did you mean {near}? " if near else ""
                fix = f"{hint}use one of: {', '.join(names) or 'none'}; or remove {what}"
                yield found(code, where, f"{said} {kind} {name}, which no {having} has", fix)


Named = Iterator[tuple[str, Where, str, str]]
"""A name, where it stands, what is said there of it, and what to remove."""


def _defaults_of(group: str, defaults: DefaultsFile | None) -> Named:
    if defaults:
        for name in defaults.document.data.get(group, {}):
            yield name, defaults.document.where(f"/{group}/{name}"), "there are defaults for", "these defaults"


def _policies_of(group: str, policies: Mapping[str, PolicyFile]) -> Named:
    for code, file in policies.items():
        for number, name in enumerate(getattr(file.policy.applies_to, group)):
            yield name, file.where(f"/applies_to/{group}/{number}"), f"policy {code} is about", "it here"


def _clusters(project: Project, paths: list[Path], findings: list[Finding]) -> dict[str, ClusterFile]:
    clusters: dict[str, ClusterFile] = {}
    for path in paths:
        try:
            loaded = load_cluster_file(path, project.shown(path))
        except CompileError as error:
            findings += error.findings
            continue
        name = loaded.cluster.cluster
        findings += check_profile(loaded.cluster, Locator(cluster_file=loaded.name, cluster_positions=loaded.positions))
        if name in clusters:
            findings.append(_twice("cluster", name, loaded.name, clusters[name].name))
        clusters.setdefault(name, loaded)
    return clusters


def _runs(
    project: Project, paths: Iterable[Path], findings: list[Finding], defaults: DefaultsFile | None
) -> tuple[dict[str, RunFile], dict[str, tuple[Finding, ...]]]:
    """The runs by their names, and why those could not be read that are known by the names of their files and records."""
    runs: dict[str, RunFile] = {}
    unread: dict[str, tuple[Finding, ...]] = {}
    for path in paths:
        try:
            loaded = load_run_files(path, project.shown(path), defaults)
        except CompileError as error:
            findings += [finding for finding in error.findings if finding not in findings]
            unread |= dict.fromkeys(_recorded_of(project, path), error.findings)
            continue
        for file in loaded:
            if file.run.run in runs:
                findings.append(_twice("run", file.run.run, file.name, runs[file.run.run].name))
            runs.setdefault(file.run.run, file)
    return runs, {name: why for name, why in unread.items() if name not in runs}


def _twice(kind: str, name: str, here: str, there: str) -> Finding:
    return found("TW109", Where(here, pointer=f"/{kind}"), f"{kind} {name} is also in {there}", "remove one of the two")


# Single files, for chart authors who keep runs and profiles where they like.


def load_run(path: str | PathLike[str]) -> Run:
    """A run from a YAML file or a Python module.

    Raises:
        CompileError: with findings that carry the file's lines.
    """
    return load_run_file(Path(path), str(path)).run


def load_cluster(path: str | PathLike[str]) -> Cluster:
    """A cluster profile from a YAML file.

    Raises:
        CompileError: with findings that carry the file's lines.
    """
    return load_cluster_file(Path(path), str(path)).cluster


def load_cluster_file(path: Path, shown: str) -> ClusterFile:
    """One profile; its file is called like its cluster."""
    document = with_runtimes(read_yaml(path, shown), path)
    cluster = validate(Cluster, document)
    _same_name(path, shown, cluster.cluster, "cluster", document.positions)
    return ClusterFile(path, shown, cluster, document.positions)


def load_run_file(path: Path, shown: str) -> RunFile:
    """One run, from YAML or from a Python module that exports RUN; its file is called like the run."""
    first, *others = load_run_files(path, shown, None)
    if others:
        fix = "name a file of one run; `trainwright` itself compiles all runs of a module in charts/runs"
        raise CompileError([found("TW108", Where(shown), f"the module exports {len(others) + 1} runs", fix)])
    return first


def load_run_files(path: Path, shown: str, defaults: DefaultsFile | None) -> tuple[RunFile, ...]:
    """The run of a file, or those of a module: the first is called like the file, and the names of RUNS begin with that."""
    if path.suffix == ".py":
        return _of_module(path, shown, defaults)
    document = read_yaml(path, shown)
    document = defaults.merged(document) if defaults else document
    run = validate(Run, document)
    _same_name(path, shown, run.run, "run", document.positions)
    return (RunFile(path, shown, run, document.positions, digest(path.read_bytes()), document.defaulted),)


def _of_module(path: Path, shown: str, defaults: DefaultsFile | None) -> tuple[RunFile, ...]:
    from trainwright.reading.run_module import load_python_runs

    mark, stem = digest(path.read_bytes()), name_of(path)
    files: list[RunFile] = []
    findings: list[Finding] = []
    places: dict[str, str] = {}
    for run, defaulted, place, line in load_python_runs(path, shown, defaults):
        several = place != "RUN"
        if not several:
            _same_name(path, shown, run.run, "run", {"/run": (line, 1)})
        where = Where(shown, line, 1, "/run")
        if several and not f"{run.run}-".startswith(f"{stem}-"):
            message = f"{place} is called {run.run}, and its module {path.name}"
            findings.append(found("TW109", where, message, f"call it {stem}-{run.run}, so that its name leads to the module"))
        if run.run in places:
            message = f"{place} is called {run.run}, and so is {places[run.run]}"
            findings.append(found("TW109", where, message, "give each run of the module a name of its own"))
        places.setdefault(run.run, place)
        files.append(RunFile(path, shown, run, {"": (line, 1)}, mark, defaulted, several))
    if findings:
        raise CompileError(findings)
    return tuple(files)


def name_of(path: Path) -> str:
    """The run that a file is called after, or what the names of its runs begin with."""
    return path.stem.replace("_", "-") if path.suffix == ".py" else path.stem


def _recorded_of(project: Project, path: Path) -> list[str]:
    """The run that a file is called after, and those that a module had at the last synth as far as names tell."""
    stem = name_of(path)
    return [stem, *(entry.stem for entry in sorted(project.records.glob(f"{stem}-*.yaml")) if path.suffix == ".py")]


def _same_name(path: Path, shown: str, name: str, key: str, positions: Positions) -> None:
    stem = name_of(path)
    if stem != name:
        line, column = positions.get(f"/{key}", (1, 1))
        where = Where(file=shown, line=line, column=column, pointer=f"/{key}")
        raise CompileError(
            [
                found(
                    "TW109",
                    where,
                    f"{key} {name} is in a file called {path.name}",
                    f"rename the file to {name}{path.suffix}, or write `{key}: {stem}`",
                )
            ]
        )


def version_for(file: Path) -> str | None:
    """Of the profile in the project around a file; None outside any ``dist/``, and where no profile can be read."""
    project = project_of(file)
    below = file.resolve().relative_to(project.dist).parts if project else ()
    return _stated(project, below[0]) if project and below else None


def project_of(file: Path) -> Project | None:
    """The project in whose ``dist/`` a file is, if any; ``dist/`` itself need not be there."""
    file = file.resolve()
    try:
        project = find_project(file.parent)
    except CompileError:
        return None
    return project if file.is_relative_to(project.dist) else None


@cache
def _stated(project: Project, cluster: str) -> str | None:
    """By a profile; what is wrong with one is for ``trainwright check`` to say."""
    profile = next((path for suffix in PROFILE_SUFFIXES if (path := project.clusters / f"{cluster}{suffix}").is_file()), None)
    try:
        return load_cluster_file(profile, project.shown(profile)).cluster.kubernetes if profile else None
    except CompileError:
        return None
