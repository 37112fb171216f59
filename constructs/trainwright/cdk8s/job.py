"""Training runs, and what watches them, as constructs for a chart author's own app."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from cdk8s import ApiObject, ApiObjectMetadata, Chart, JsonPatch
from constructs import Construct

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError, Finding, Severity, visible
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator, escape
from trainwright.manifest.monitoring import WatchedRun, monitoring_objects, watched
from trainwright.manifest.plain import problems
from trainwright.manifest.provenance import split
from trainwright.plan import Plan
from trainwright.project.load import load_run_file
from trainwright.reading import validate_data
from trainwright.reading.document import from_here
from trainwright.run import Run


class RunWarning(UserWarning):
    """A finding that does not stop the compile. Filter it like any warning of Python, or waive it in the run."""


class TrainingJob(Construct):
    """One training run, compiled for a cluster, with all its objects in the chart around it.

    The chart's labels are added to the objects' own; they restart nothing. To change what the pods hold use the run's
    ``overrides``: a JSON patch on ``api_objects`` would move no name, and Kubernetes refuses to change a running Job.
    """

    run: Run
    plan: Plan
    findings: tuple[Finding, ...]
    """Warnings and notes; errors are raised."""
    api_objects: tuple[ApiObject, ...]
    """In the order of the YAML; none where the run's state is done. An object that runs of one shape share is the first run's."""
    watched: WatchedRun | None
    """What :class:`Monitoring` knows of it; None where nothing can watch it."""

    def __init__(self, scope: Construct, id: str, *, cluster: Cluster, run: Run | str | PathLike[str]) -> None:
        """Compile ``run``, a value or the path of a run file, for ``cluster``.

        Raises:
            CompileError: with findings, where the run has errors.
        """
        super().__init__(scope, id)
        here = locate = caller()
        cluster = validate_data(Cluster, cluster, here.run_file, here.run_positions)
        if isinstance(run, Run):
            self.run = validate_data(Run, run, here.run_file, here.run_positions)
        else:
            file = load_run_file(Path(run), str(run))
            self.run, locate = file.run, file.locator(None)
        if self.run.cluster != cluster.cluster:
            message = f"run {self.run.run} is for cluster {self.run.cluster}, and is given the profile of {cluster.cluster}"
            fix = "pass the profile that the run names, or change its cluster"
            raise CompileError([found("TW110", locate.run("/cluster"), message, fix)])
        compiled = compile_run(self.run, cluster, locate)
        self.plan, self.findings = compiled.plan, compiled.findings
        self.watched = None if self.run.state == "done" else watched(compiled.resolution)
        self.api_objects = tuple(_emit(self, compiled)) if self.run.state == "active" else ()
        _warn(self.findings)

    @property
    def name(self) -> str:
        """Name of the run's objects: ``<run>-<hash>``."""
        return self.plan.name


class Monitoring(Construct):
    """What watches runs: a PodMonitor, a PrometheusRule and a dashboard in each of their namespaces, as the profile says.

    Make one for all runs of a cluster: a second one would name the same objects.
    """

    api_objects: tuple[ApiObject, ...]
    """None where the cluster has no monitoring, or no run serves metrics."""

    def __init__(self, scope: Construct, id: str, *, cluster: Cluster, jobs: Sequence[TrainingJob]) -> None:
        super().__init__(scope, id)
        by_namespace: dict[str, list[WatchedRun]] = {}
        for job in jobs:
            by_namespace.setdefault(job.run.namespace, []).extend([job.watched] if job.watched else [])
        self.api_objects = tuple(
            _object(self, f"{manifest['kind'].lower()}-{namespace}", manifest)
            for namespace, runs in by_namespace.items()
            for manifest, _ in map(split, monitoring_objects(cluster, namespace, runs))
        )


def _emit(scope: Construct, compiled: CompiledRun) -> list[ApiObject]:
    """One ApiObject a manifest. Metadata goes in as such, so that labels of the chart and of later code still reach it."""
    kinds = [str(manifest["kind"]).lower() for manifest in compiled.manifests]
    items = []
    for index, manifest in enumerate(compiled.manifests):
        for pointer, reason in problems(manifest):
            raise ValueError(f"{manifest['kind']} {manifest['metadata']['name']}: {pointer or 'the object'} {reason}")
        if index in compiled.shared and _is_there(scope, manifest):
            continue
        id = kinds[index] if kinds.count(kinds[index]) == 1 else f"{kinds[index]}-{index}"
        items.append(_object(scope, id, manifest))
    return items


def _object(scope: Construct, id: str, manifest: Mapping[str, Any]) -> ApiObject:
    metadata = dict(manifest["metadata"])
    known = ApiObjectMetadata(
        name=metadata.pop("name"),
        namespace=metadata.pop("namespace", None),
        labels={**Chart.of(scope).labels, **metadata.pop("labels", {})},
        annotations=metadata.pop("annotations", {}),
    )
    item = ApiObject(scope, id, api_version=manifest["apiVersion"], kind=manifest["kind"], metadata=known)
    for key, value in metadata.items():
        item.metadata.add(key, value)
    # A patch keeps the order of keys; props would be sorted.
    content = [key for key in manifest if key not in ("apiVersion", "kind", "metadata")]
    item.add_json_patch(*(JsonPatch.add(f"/{escape(key)}", manifest[key]) for key in content))
    return item


def _is_there(scope: Construct, manifest: Mapping[str, Any]) -> bool:
    """Whether another run of the app has made the object that this one shares with it."""
    others = (item for item in scope.node.root.node.find_all() if isinstance(item, ApiObject))
    return any(
        (item.api_version, item.kind, item.metadata.namespace, item.metadata.name)
        == (manifest["apiVersion"], manifest["kind"], manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        for item in others
    )


def _warn(findings: Sequence[Finding]) -> None:
    """Each warning once, on stderr, at the author's own line."""
    for finding in findings:
        if finding.severity is Severity.WARNING:
            where = finding.where
            text = visible(f"{finding.code}: {finding.message}; {finding.fix}")
            warnings.warn_explicit(text, RunWarning, where.file or "<run>", where.line or 1, registry=_WARNED)


_WARNED: dict[Any, Any] = {}
"""What was shown, for Python's own rule that a warning of one place is shown once."""


_INNER = ("trainwright.cdk8s.", "jsii.")
"""Modules between the author's line and us: jsii builds every construct through its metaclass."""


def caller() -> Locator:
    """A locator whose every place is the line of the nearest caller outside this package and jsii."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(_INNER):
        frame = frame.f_back
    return Locator(run_file=from_here(Path(frame.f_code.co_filename)), run_positions={"": (frame.f_lineno, 1)})
