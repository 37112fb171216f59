"""Argo CD's objects: an AppProject, and two Applications for each namespace of each cluster.

What a kind of run needs of Argo CD is stated by its target (:class:`~trainwright.operators.base.Target`), and is written only
where runs of that kind are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.gitops.model import GitOps
from trainwright.manifest.kinds import GroupKind, ObjectKind
from trainwright.manifest.kueue import QUEUE_LABEL
from trainwright.manifest.provenance import Tree, Why
from trainwright.operators import TARGETS
from trainwright.operators.base import Target

GROUP = "argoproj.io"
_VERSION = f"{GROUP}/v1alpha1"
_LAST_APPLIED = 256 * 1024
"""Bytes that all annotations of an object may have, and so what a client-side apply can write into one (apimachinery,
pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB)."""

_APPLICATION = {
    "": "what Argo CD syncs from one folder of dist/ to one namespace",
    "/metadata": "project, cluster, namespace and folder; without a finalizer, so that what it synced stays when it is deleted",
    "/metadata/annotations": "Kueue adds to a list that only the API server knows by its key",
    "/spec/syncPolicy/automated": "what leaves dist/ leaves the cluster; of a foundation, claims and the like say Prune=false",
    "/spec/syncPolicy/automated/allowEmpty": "else nothing is synced when the last run is retired, and it would go on training",
    "/spec/syncPolicy/retry": "a failed sync of a commit is not tried again otherwise, and what a run needs may come later",
    "/spec/syncPolicy/syncOptions": "runs that are as in Git are left alone; the others are for what Kueue writes, or for size",
    "/spec/ignoreDifferences": "what Kueue writes into the pods of an admitted run",
}
KINDS = (
    ObjectKind(
        GroupKind(GROUP, "AppProject"),
        reasons={
            "": "what the Applications of this project may touch",
            "/spec/clusterResourceWhitelist": "a foundation has no other object outside of a namespace",
        },
    ),
    ObjectKind(GroupKind(GROUP, "Application"), reasons=_APPLICATION),
    ObjectKind(
        GroupKind(GROUP, "ApplicationSet"),
        reasons={
            "": "makes an Application of each element",
            "/spec/generators": "an element for each folder of dist/, with what its Application differs by",
            "/spec/syncPolicy": "no Application is deleted by it, and what one has synced stays when it is deleted",
            "/spec/templatePatch": "what differs by the kinds of runs",
        },
    ),
    ObjectKind(GroupKind("", "ConfigMap"), reasons={"": "checks of health that are merged into Argo CD's own ConfigMap"}),
)


class Folder(NamedTuple):
    """A folder of ``dist/`` that an Application syncs."""

    cluster: str
    namespace: str
    part: str
    """``foundation`` or ``runs``."""
    manifests: Sequence[Mapping[str, Any]]
    """What is in it."""
    defaulted: bool = False
    """Whether Kueue puts runs that name no queue into one: the namespace has a LocalQueue called ``default``."""

    @property
    def path(self) -> str:
        return f"dist/{self.cluster}/{self.namespace}/{self.part}"


def argo_cd_objects(settings: GitOps, folders: Sequence[Folder]) -> list[Tree]:
    """The AppProject, then the Applications or their set, in the order of the folders."""
    applications = [_application(settings, folder) for folder in folders]
    made = applications if settings.kind == "Application" else [_application_set(settings, applications)]
    return [_project(settings, folders), *made]


def health_patch(settings: GitOps) -> Tree:
    """Checks for every kind that carries runs, and for Applications, as a patch of Argo CD's own ConfigMap."""
    checks = {GroupKind(GROUP, "Application"): Path(__file__).with_name("application.lua").read_text(encoding="utf-8")}
    checks |= {target.kind: target.health for target in TARGETS.values()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "namespace": settings.namespace},
        "data": {f"resource.customizations.health.{'_'.join(kind)}": check for kind, check in checks.items()},
    }


def _project(settings: GitOps, folders: Sequence[Folder]) -> Tree:
    destinations = {(one.cluster, one.namespace): _destination(settings, one) for one in folders}
    return {
        "apiVersion": _VERSION,
        "kind": "AppProject",
        "metadata": {"name": settings.project, "namespace": settings.namespace},
        "spec": {
            "sourceRepos": [_repository(settings)],
            "destinations": list(destinations.values()),
            "clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}],
        },
    }


def _application(settings: GitOps, folder: Folder) -> Tree:
    runs = folder.part == "runs"
    queued = _queued(folder) if runs else {}
    automated = {"prune": True, "selfHeal": True, **({"allowEmpty": True} if runs else {})}
    retry = {"limit": -1, "refresh": True, "backoff": {"duration": "10s", "factor": 2, "maxDuration": "3m"}}
    differs = [
        {**({"group": kind.group} if kind.group else {}), "kind": kind.kind, "jqPathExpressions": list(target.queue_writes)}
        for kind, target in queued.items()
    ]
    by_key = any(target.queue_adds_by_key for target in queued.values())
    options = {
        "ApplyOutOfSyncOnly=true": runs,
        "ServerSideApply=true": by_key or any(len(json.dumps(one)) > _LAST_APPLIED for one in folder.manifests),
        "RespectIgnoreDifferences=true": bool(differs),
    }
    wanted = [option for option, needed in options.items() if needed]
    annotations = {"annotations": {f"argocd.{GROUP}/compare-options": "ServerSideDiff=true"}} if by_key else {}
    path = f"{settings.folder}/{folder.path}" if settings.folder else folder.path
    return {
        "apiVersion": _VERSION,
        "kind": "Application",
        "metadata": {
            "name": f"{settings.project}-{folder.cluster}-{folder.namespace}-{folder.part}",
            "namespace": settings.namespace,
            **annotations,
        },
        "spec": {
            "project": settings.project,
            "source": {"repoURL": _repository(settings), "targetRevision": _revision(settings), "path": path},
            "destination": _destination(settings, folder),
            "syncPolicy": {
                "automated": automated,
                **({"retry": retry} if runs else {}),
                **({"syncOptions": wanted} if wanted else {}),
            },
            **({"ignoreDifferences": differs} if differs else {}),
        },
    }


def _application_set(settings: GitOps, applications: Sequence[Tree]) -> Tree:
    """Each element holds its whole spec but the project, which a patch of the template cannot set
    (docs/operator-manual/applicationset/Template.md)."""
    elements = [
        {
            "name": one["metadata"]["name"],
            "annotations": one["metadata"].get("annotations", {}),
            "spec": {key: value for key, value in one["spec"].items() if key != "project"},
        }
        for one in applications
    ]
    source = {"repoURL": _repository(settings), "targetRevision": _revision(settings), "path": "{{ .spec.source.path }}"}
    destination = {"namespace": "{{ .spec.destination.namespace }}"}
    return {
        "apiVersion": _VERSION,
        "kind": "ApplicationSet",
        "metadata": {"name": settings.project, "namespace": settings.namespace},
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [{"list": {"elements": elements}}],
            "syncPolicy": {"applicationsSync": "create-update", "preserveResourcesOnDeletion": True},
            "template": {
                "metadata": {"name": "{{ .name }}"},
                "spec": {"project": settings.project, "source": source, "destination": destination},
            },
            "templatePatch": "metadata:\n  annotations: {{ toJson .annotations }}\nspec: {{ toJson .spec }}\n",
        },
    }


def _destination(settings: GitOps, folder: Folder) -> Tree:
    there = settings.destinations.get(folder.cluster, folder.cluster)
    stated = Why(there, f"run:/destinations/{folder.cluster}", "the cluster, as Argo CD knows it")
    return {"server" if there.startswith("https://") else "name": stated, "namespace": folder.namespace}


def _repository(settings: GitOps) -> Why:
    return Why(settings.repository, "run:/repository", "where the project is, as Argo CD knows it")


def _revision(settings: GitOps) -> Why:
    return Why(settings.revision, "run:/revision", "what is synced of the repository")


def _queued(folder: Folder) -> dict[GroupKind, Target]:
    """The kinds of a folder's runs that Kueue admits, in the order of the targets."""
    found = set(_in_queues(folder))
    return {target.kind: target for target in TARGETS.values() if target.kueue and target.kind in found}


def _in_queues(folder: Folder) -> Iterator[GroupKind]:
    for manifest in folder.manifests:
        if folder.defaulted or QUEUE_LABEL in (manifest["metadata"].get("labels") or {}):
            yield GroupKind.of(manifest)
