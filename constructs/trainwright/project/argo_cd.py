"""What Argo CD is told, as files of ``dist/`` that no Application syncs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.findings.locate import Locator
from trainwright.gitops.applications import KINDS, Folder, argo_cd_objects, health_patch
from trainwright.manifest.kinds import reasons_by_kind
from trainwright.manifest.kueue import DEFAULT_QUEUE
from trainwright.manifest.provenance import Tree, split
from trainwright.project.built import BuiltFoundation, BuiltRun, Output, foundation_file
from trainwright.project.load import Sources
from trainwright.project.record import ARGO_CD
from trainwright.report.header import argo_cd_header


def build_argo_cd(
    sources: Sources, runs: Mapping[str, BuiltRun], foundations: Mapping[str, BuiltFoundation]
) -> dict[str, BuiltFoundation]:
    """Applications for every folder of ``dist/``, and the checks of health; empty for a project without ``charts/gitops.yaml``.

    ``runs`` are the paused ones too: what Argo CD is told of their kinds stays.
    """
    file = sources.gitops
    if file is None:
        return {}
    objects = {
        f"{ARGO_CD}/applications": argo_cd_objects(file.gitops, list(_folders(sources, runs, foundations))),
        f"{ARGO_CD}/health": [health_patch(file.gitops)],
    }
    return {key: _built(key, trees, file.name, Locator(file.name, file.positions)) for key, trees in objects.items()}


def _built(key: str, trees: list[Tree], name: str, locator: Locator) -> BuiltFoundation:
    parts = [split(tree) for tree in trees]
    output = Output(
        path=foundation_file(key),
        manifests=tuple(plain for plain, _ in parts),
        provenance=lambda: tuple(answers for _, answers in parts),
        change=name,
        reasons=reasons_by_kind(KINDS),
        locator=locator,
        header=argo_cd_header(name),
    )
    return BuiltFoundation(key, (), output)


def _folders(
    sources: Sources, runs: Mapping[str, BuiltRun], foundations: Mapping[str, BuiltFoundation]
) -> Iterator[Folder]:
    """A namespace of a profile always has a folder for runs, if only with a file that keeps it."""
    for name, file in sorted(sources.clusters.items()):
        for namespace, described in sorted(file.cluster.namespaces.items()):
            key = f"{name}/{namespace}"
            if key in foundations:
                yield Folder(name, namespace, "foundation", foundations[key].output.manifests)
            here = [built.output.manifests for built in runs.values() if built.output.foundation == key]
            defaulted = file.cluster.kueue is not None and DEFAULT_QUEUE in described.queues
            yield Folder(name, namespace, "runs", [one for manifests in here for one in manifests], defaulted)
