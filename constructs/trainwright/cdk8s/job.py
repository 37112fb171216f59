"""Training runs as constructs, for a chart author's own app."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from cdk8s import ApiObject, ApiObjectMetadata, Chart, JsonPatch
from constructs import Construct

from trainwright.cdk8s.caller import caller
from trainwright.cdk8s.fields import RunFields, run_from_fields
from trainwright.cluster import Cluster
from trainwright.codes import found
from trainwright.compile import compile_run
from trainwright.findings import CompileError, Finding, Severity
from trainwright.locate import escape
from trainwright.manifest.plain import problems
from trainwright.plan import Plan
from trainwright.project import load_run_file
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
    """In the order of the YAML; none where the run's state is done."""

    def __init__(self, scope: Construct, id: str, *, cluster: Cluster, run: Run | str | PathLike[str]) -> None:
        """Compile ``run``, a value or the path of a run file, for ``cluster``.

        Raises:
            CompileError: with findings, where the run has errors.
        """
        super().__init__(scope, id)
        if isinstance(run, Run):
            self.run, locate = run, caller()
        else:
            file = load_run_file(Path(run), str(run))
            self.run, locate = file.run, file.locator(None)
        if self.run.cluster != cluster.cluster:
            message = f"run {self.run.run} is for cluster {self.run.cluster}, and is given the profile of {cluster.cluster}"
            fix = "pass the profile that the run names, or change its cluster"
            raise CompileError([found("TW110", locate.run("/cluster"), message, fix)])
        compiled = compile_run(self.run, cluster, locate)
        self.plan, self.findings = compiled.plan, compiled.findings
        self.api_objects = () if self.run.state == "done" else tuple(_emit(self, compiled.manifests))
        _warn(self.findings)

    @property
    def name(self) -> str:
        """Name of the run's objects: ``<run>-<hash>``."""
        return self.plan.name


class DDPJob(TrainingJob):
    """A run with torch DistributedDataParallel: every rank holds the whole model."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: Cluster,
        nodes: int,
        gpus_per_node: int,
        processes_per_node: int | None = None,
        **fields: Unpack[RunFields],
    ) -> None:
        """The other fields are those of a run. With 0 ``gpus_per_node`` it runs on CPUs, ``processes_per_node`` ranks a pod.

        The run is called like the construct (``id``) and lives in the chart's namespace, unless ``run`` and ``namespace`` say
        otherwise. Keep the names of runs unique in a namespace: runs that share one share their checkpoints.

        Raises:
            CompileError: with findings, where the run has errors.
        """
        topology = {"kind": "ddp", "nodes": nodes, "gpus_per_node": gpus_per_node, "processes_per_node": processes_per_node}
        super().__init__(scope, id, cluster=cluster, run=run_from_fields(scope, id, cluster, topology, fields, caller()))


def _emit(scope: Construct, manifests: Sequence[Mapping[str, Any]]) -> list[ApiObject]:
    """One ApiObject a manifest. Metadata goes in as such, so that labels of the chart and of later code still reach it."""
    labels = Chart.of(scope).labels
    kinds = [str(manifest["kind"]).lower() for manifest in manifests]
    items = []
    for index, manifest in enumerate(manifests):
        for pointer, reason in problems(manifest):
            raise ValueError(f"{manifest['kind']} {manifest['metadata']['name']}: {pointer or 'the object'} {reason}")
        metadata = dict(manifest["metadata"])
        known = ApiObjectMetadata(
            name=metadata.pop("name"),
            namespace=metadata.pop("namespace", None),
            labels={**labels, **metadata.pop("labels", {})},
            annotations=metadata.pop("annotations", {}),
        )
        id = kinds[index] if kinds.count(kinds[index]) == 1 else f"{kinds[index]}-{index}"
        item = ApiObject(scope, id, api_version=manifest["apiVersion"], kind=manifest["kind"], metadata=known)
        for key, value in metadata.items():
            item.metadata.add(key, value)
        # A patch keeps the order of keys; props would be sorted.
        content = [key for key in manifest if key not in ("apiVersion", "kind", "metadata")]
        item.add_json_patch(*(JsonPatch.add(f"/{escape(key)}", manifest[key]) for key in content))
        items.append(item)
    return items


def _warn(findings: Sequence[Finding]) -> None:
    """Each warning once, on stderr, at the author's own line."""
    for finding in findings:
        if finding.severity is Severity.WARNING:
            where = finding.where
            text = f"{finding.code}: {finding.message}; {finding.fix}"
            warnings.warn_explicit(text, RunWarning, where.file or "<run>", where.line or 1, registry=_WARNED)


_WARNED: dict[Any, Any] = {}
"""What was shown, for Python's own rule that a warning of one place is shown once."""
