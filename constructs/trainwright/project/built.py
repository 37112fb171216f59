"""What a compiled project is: outputs, runs, foundations, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun
from trainwright.findings import Finding, Severity
from trainwright.findings.locate import Locator
from trainwright.manifest.kinds import GroupKind, Reasons
from trainwright.manifest.provenance import Provenance
from trainwright.model import Fact
from trainwright.plan import Resolution
from trainwright.project.hold import HeldRun
from trainwright.project.load import ClusterFile, RunFile
from trainwright.project.record import ARGO_CD, Digest, Records, cluster_path, foundation_path, manifests_digest, run_path
from trainwright.run import Run

Manifest = dict[str, Any]


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
    payloads: Callable[[], Mapping[str, Provenance]] = dict
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


class Compilation(NamedTuple):
    """What a run compiles to, and what its file in ``dist/`` says of that."""

    compiled: CompiledRun
    facts: Mapping[str, Fact]
    header: str


class Apart(NamedTuple):
    """A compilation without the run and the profile that it follows from: plain values, and few, to hand to another process."""

    resolution: tuple[Any, ...]
    compiled: tuple[Any, ...]
    facts: Mapping[str, Fact]
    header: str

    @classmethod
    def of(cls, compilation: Compilation) -> Apart:
        (_, _, resolution, *compiled), facts, header = compilation
        return cls(resolution[2:], tuple(compiled), facts, header)

    def joined(self, run: Run, cluster: Cluster) -> Compilation:
        """The compilation, where both are at hand."""
        compiled = CompiledRun(run, cluster, Resolution(run, cluster, *self.resolution), *self.compiled)
        return Compilation(compiled, self.facts, self.header)


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
    def emitted_facts(self) -> Mapping[str, Fact]:
        """What is stated of it as it is, or will be, in ``dist/``."""
        return self.facts if self.held is None else self.held.record.facts

    @property
    def identity(self) -> str:
        """The hash in the names of its objects in ``dist/``."""
        return self.compiled.identity if self.held is None else self.held.record.identity


class BuiltFoundation(NamedTuple):
    """What must be in a namespace before its runs, or what Argo CD is told."""

    key: str
    """``<cluster>/<namespace>``, or below ``ARGO_CD``."""
    serves: tuple[str, ...]
    """The runs of the namespace."""
    output: Output


class Build(NamedTuple):
    """All outputs, and all findings in the order of the files."""

    runs: dict[str, BuiltRun]
    foundations: dict[str, BuiltFoundation]
    paused: dict[str, BuiltRun]
    """Runs whose state is paused: they keep their records and what they need of foundations, and are not emitted."""
    done: dict[str, RunFile]
    """Runs whose state is done: they keep their records, and are not emitted."""
    clusters: dict[str, ClusterFile]
    """Every profile that could be read."""
    failures: dict[str, tuple[Finding, ...]]
    """Run -> its errors, those of its profile and of its foundation among them. No other run is held up by them."""
    findings: tuple[Finding, ...]

    @property
    def users(self) -> dict[str, BuiltRun]:
        """The runs that foundations are there for."""
        return {**self.runs, **self.paused}

    @property
    def outputs(self) -> dict[str, Output]:
        """Path below ``dist/`` -> output."""
        outputs = [*(entry.output for entry in self.foundations.values()), *(entry.output for entry in self.runs.values())]
        return {output.path: output for output in outputs}

    @property
    def run_folders(self) -> list[str]:
        """Folders below ``dist/`` for the runs of each namespace of a profile.

        Argo CD cannot sync a folder that is gone, and Git has no empty ones: the last run would go on training.
        """
        return sorted(f"{name}/{namespace}/runs" for name, file in self.clusters.items() for namespace in file.cluster.namespaces)

    @property
    def idle(self) -> list[str]:
        """Those of them that are for no run of the build."""
        active = {f"{entry.output.foundation}/runs" for entry in self.runs.values()}
        return [folder for folder in self.run_folders if folder not in active]

    @property
    def recorded(self) -> frozenset[str]:
        """Paths of the records that there must be, below their folder; of a run that is paused or done there may be one."""
        runs = (run_path(name) for name in (*self.users, *self.done))
        return frozenset((*runs, *map(foundation_path, self.foundations), *map(cluster_path, self.clusters)))

    @property
    def failed(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self.findings)


SUFFIX = ".k8s.yaml"
KEEPS_FOLDER = ".gitkeep"
NO_RECORDS = Records()


def foundation_file(key: str) -> str:
    """Below ``dist/``, of a foundation or of what Argo CD is told."""
    folder, _, name = key.partition("/")
    return f"{key}/argo-cd{SUFFIX}" if folder == ARGO_CD else f"{key}/foundation/{name}{SUFFIX}"


def run_file(cluster: object, namespace: object, run: str) -> str:
    """Below ``dist/``, of a run."""
    return f"{cluster}/{namespace}/runs/{run}{SUFFIX}"


def run_of(path: str) -> str | None:
    """The run that a file of ``dist/`` is called after, by a path with forward slashes; None for another file."""
    folder, _, name = path.rpartition("/")
    return name.removesuffix(SUFFIX) if folder.endswith("/runs") and name.endswith(SUFFIX) else None


def record_of(path: str) -> str | None:
    """The record that a file of ``dist/`` has by its path, below the folder of records and without its ending."""
    key = "/".join(path.split("/")[:2])
    return run_of(path) or (f"foundation/{key}" if path == foundation_file(key) else None)
