"""Everything a project compiles to, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import PurePath
from typing import Any

from trainwright.codes import found
from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError, Finding, Severity, Where
from trainwright.locate import Locator
from trainwright.manifest.foundation import foundation
from trainwright.manifest.key import object_key
from trainwright.manifest.why import Provenance, split
from trainwright.project.load import ClusterFile, RunFile, Sources
from trainwright.project.lock import Digest, manifests_digest

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Output:
    """One file of ``dist/``."""

    path: str
    """Below ``dist/``, with forward slashes."""
    manifests: tuple[Manifest, ...]
    provenance: tuple[Provenance, ...]
    change: str
    """The file that a person edits to change this one."""

    @property
    def digest(self) -> Digest:
        return manifests_digest(self.manifests)


@dataclass(frozen=True, slots=True)
class BuiltRun:
    file: RunFile
    cluster: ClusterFile
    compiled: CompiledRun
    output: Output


@dataclass(frozen=True, slots=True)
class BuiltFoundation:
    key: str
    """``<cluster>/<namespace>``."""
    cluster: ClusterFile
    output: Output

    @property
    def locator(self) -> Locator:
        return Locator(cluster_file=self.cluster.name, cluster_positions=self.cluster.positions)


@dataclass(frozen=True, slots=True)
class Build:
    """All outputs, and all findings in the order of the files."""

    runs: dict[str, BuiltRun]
    foundations: dict[str, BuiltFoundation]
    done: dict[str, RunFile]
    """Runs whose state is done: kept in the lock, not emitted."""
    findings: tuple[Finding, ...]

    @property
    def outputs(self) -> dict[str, Output]:
        """Path below ``dist/`` -> output."""
        outputs = [*(entry.output for entry in self.foundations.values()), *(entry.output for entry in self.runs.values())]
        return {output.path: output for output in outputs}

    @property
    def failed(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self.findings)


def build_project(sources: Sources, today: date) -> Build:
    """Compile every active run and every foundation; one run's errors do not hide another's."""
    findings = list(sources.findings)
    foundations = _foundations(sources)
    runs: dict[str, BuiltRun] = {}
    done: dict[str, RunFile] = {}
    for name, file in sorted(sources.runs.items()):
        if file.run.state == "done":
            done[name] = file
            continue
        try:
            runs[name] = build_run(file, sources, today)
            findings += runs[name].compiled.findings
        except CompileError as error:
            findings += [finding for finding in error.findings if finding not in findings]
    findings += duplicates([*(entry.output for entry in foundations.values()), *(entry.output for entry in runs.values())])
    return Build(runs, foundations, done, tuple(findings))


def build_run(file: RunFile, sources: Sources, today: date) -> BuiltRun:
    """One run with its cluster.

    Raises:
        CompileError: with the findings of the run.
    """
    cluster = sources.clusters.get(file.run.cluster)
    if cluster is None:
        broken = [finding for finding in sources.findings if _of_profile(finding, file.run.cluster)]
        if broken:
            raise CompileError(broken)
        known = ", ".join(sources.clusters) or "none"
        raise CompileError(
            [
                found(
                    "TW110",
                    file.locator(None).run("/cluster"),
                    f"there is no cluster profile {file.run.cluster}",
                    f"use one of: {known}; or add charts/clusters/{file.run.cluster}.yaml",
                )
            ]
        )
    compiled = compile_run(file.run, cluster.cluster, file.locator(cluster), today)
    path = f"{file.run.cluster}/{file.run.namespace}/runs/{file.run.run}.k8s.yaml"
    return BuiltRun(file, cluster, compiled, Output(path, compiled.manifests, compiled.provenance, file.name))


def _of_profile(finding: Finding, cluster: str) -> bool:
    path = PurePath(finding.where.file or "")
    return path.parent.name == "clusters" and path.stem == cluster


def _foundations(sources: Sources) -> dict[str, BuiltFoundation]:
    """Every managed namespace and claim of every profile: they depend on no run, so no run's end removes one."""
    built = {}
    for name, file in sorted(sources.clusters.items()):
        for namespace in sorted(file.cluster.namespaces):
            parts = [split(tree) for tree in foundation(file.cluster, namespace)]
            if parts:
                key = f"{name}/{namespace}"
                output = Output(
                    f"{key}/foundation/{namespace}.k8s.yaml",
                    tuple(plain for plain, _ in parts),
                    tuple(answers for _, answers in parts),
                    file.name,
                )
                built[key] = BuiltFoundation(key, file, output)
    return built


def duplicates(outputs: Sequence[Output]) -> list[Finding]:
    """One object may come from one file only, in each cluster."""
    seen: dict[tuple[str, ...], str] = {}
    findings = []
    for output in outputs:
        cluster = output.path.partition("/")[0]
        for manifest in output.manifests:
            _, kind, _, name = identity = object_key(manifest)
            key = (cluster, *identity)
            if key in seen:
                message = f"{kind} {name} is also made from {seen[key]}"
                findings.append(found("TW507", Where(output.change), message, "rename one of the two"))
            seen.setdefault(key, output.change)
    return findings
