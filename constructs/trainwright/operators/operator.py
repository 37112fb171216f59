"""The parts of an operator's folder that speak of objects in a cluster, and how to find them by the kind of an object.

``defaults.py``, ``pods.py``, ``ended.py``, ``status.py`` and ``said.py`` of a folder have one function each, named like its file,
which takes objects of all kinds of that operator. A folder without ``defaults.py`` is of an operator that has no mutating
webhook. A new kind is one line in ``FOLDERS``. What follows when a pod has ended is in ``ended.py``.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from trainwright.manifest.kinds import GroupKind
from trainwright.objects.stored import fill_in_pod, fill_in_service
from trainwright.operators.ending import Controller
from trainwright.operators.phase import Standing, by_pods
from trainwright.operators.said import Said

Tree = dict[str, Any]

SUFFIX = "abcde"
"""Stands for the random end of a generated name."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a controller sees besides the object: its own flags, and other objects of the namespace."""

    objects: Sequence[Mapping[str, Any]] = ()
    """Those that the object names, such as the TrainingRuntime of a TrainJob."""
    gangs: Mapping[str, str | None] = field(default_factory=dict)
    """Operator -> the value of its flag for gangs (``Operator.gang_scheduler`` of a profile)."""
    init_container: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the Training Operator's template for the init container of workers, over its own."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """PriorityClass -> its value."""
    suffix: str = SUFFIX


class Awaited(NamedTuple):
    """What the pods of a role must be before others are made."""

    role: str
    state: str
    """``Ready`` or ``Complete``."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as its controller sends it to the API server, and what is known of it by whoever made it."""

    role: str
    """As the operator calls it, in lower case: ``worker``, the name of a task or of a replicated Job, ``node`` of a Job."""
    index: int
    """Among the pods of its role, from 0."""
    host: str
    """By which pods of its namespace find it; its name where it has no other."""
    manifest: Tree
    after: tuple[Awaited, ...] = ()
    """Roles whose pods its controller waits for before it makes this one."""

    @property
    def spec(self) -> Tree:
        spec: Tree = self.manifest["spec"]
        return spec

    @property
    def labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.manifest["metadata"]["labels"]
        return labels

    @property
    def annotations(self) -> dict[str, str]:
        annotations: dict[str, str] = self.manifest["metadata"].get("annotations", {})
        return annotations


class Made(NamedTuple):
    """What the controllers make of an object, those of its children included."""

    pods: Sequence[Pod] = ()
    objects: Sequence[Tree] = ()
    """Services, Secrets, ConfigMaps, PodGroups, Jobs and other children, each as it is sent. Secrets have empty values."""
    later: Sequence[Pod] = ()
    """Those for which one of the others must have succeeded first."""

    @property
    def every_pod(self) -> Sequence[Pod]:
        return (*self.pods, *self.later)


class Size(NamedTuple):
    """What a run is made small to."""

    nodes: int
    """The most pods that hold ranks, and the most of any role."""
    processes: int | None = None
    """Ranks in each; None for as many as it has."""

    def fewer(self, fields: Tree, *names: str, taken: int = 0) -> None:
        """Bring numbers down to it. ``taken`` are pods that another role has."""
        for name in names:
            if name in fields:
                fields[name] = min(fields[name], max(self.nodes - taken, 0))


class Defaults(Protocol):
    """What API server and mutating webhooks write into an object before they store it."""

    def __call__(self, manifest: Mapping[str, Any]) -> Tree:
        """The object as it is stored; the argument stays as it is, and what is stored already comes back equal.

        It does not know uids, times and the counters that the API server keeps, defaults that a CRD's schema states (they are
        the schema's), or whether the object is valid: any shape is taken, and nothing is raised for one that would be refused.
        """


class Pods(Protocol):
    """What an operator's controller makes of an object."""

    def __call__(self, manifest: Mapping[str, Any], around: Around) -> Made:
        """All pods at once, as of a run that has just been admitted, in the order of roles and of indexes.

        It does not know what a scheduler or kubelet adds, or quotas. ``suspend`` is not looked at.

        Raises:
            KeyError, TypeError, ValueError: for an object that the API server or a webhook refuses.
            LookupError: for an object that it names, and that is not in ``around``.
        """


class Resized(Protocol):
    """An object as its author would have written it for fewer pods. Beside :class:`Pods`, in ``pods.py``."""

    def __call__(self, manifest: Mapping[str, Any], around: Around, size: Size) -> Tree:
        """The argument stays as it is. Raises what :class:`Pods` raises."""


class Ended(Protocol):
    """What an operator's controller does when pods of an object end."""

    def __call__(self, manifest: Mapping[str, Any], around: Around) -> Controller | None:
        """It knows the pods as :class:`Pods` makes them, and no others. None where no pod's end is the end of the object.

        Raises what :class:`Pods` raises.
        """


class Status(Protocol):
    """Where an object stands by what its operator has written into it."""

    def __call__(self, manifest: Mapping[str, Any]) -> Standing | None:
        """A phase and its reason, from the object with its status; None where it says neither that the run is suspended nor how
        it ended: then the pods decide. A status of any shape is taken, and nothing is raised.
        """


class Says(Protocol):
    """What an object says of its run, whoever wrote it. It knows the words of its kind, and nothing of commands."""

    def __call__(self, manifest: Mapping[str, Any], around: Around) -> Said:
        """Any shape is taken: what is of a wrong type is as if it were not there.

        Raises:
            LookupError: for an object that it names, and that is not in ``around``.
        """


FOLDERS: Mapping[GroupKind, str] = {
    GroupKind("batch", "Job"): "job",
    GroupKind("jobset.x-k8s.io", "JobSet"): "jobset",
    GroupKind("trainer.kubeflow.org", "TrainJob"): "kubeflow_trainer",
    GroupKind("kubeflow.org", "PyTorchJob"): "training_operator",
    GroupKind("kubeflow.org", "TFJob"): "training_operator",
    GroupKind("kubeflow.org", "XGBoostJob"): "training_operator",
    GroupKind("kubeflow.org", "MPIJob"): "mpi_operator",
    GroupKind("batch.volcano.sh", "Job"): "volcano",
    GroupKind("ray.io", "RayJob"): "kuberay",
    GroupKind("ray.io", "RayCluster"): "kuberay",
}
"""Kind -> the folder of the operator whose controller makes pods of it."""


_SAYING: Mapping[GroupKind, str] = {
    **{kind: folder for kind, folder in FOLDERS.items() if kind.kind != "RayCluster"},
    **{GroupKind("trainer.kubeflow.org", kind): "kubeflow_trainer" for kind in ("TrainingRuntime", "ClusterTrainingRuntime")},
}
"""Kind -> the folder that knows what its objects say of a run. Nothing ends a RayCluster; a runtime is a run without its work."""

_OF_THE_CORE = {GroupKind("", "Pod"): fill_in_pod, GroupKind("", "Service"): fill_in_service}


@cache
def _part(folder: str, file: str, name: str = "") -> Any:
    """A function of a folder, of the file's name or of another; None where the folder has none."""
    module = f"trainwright.operators.{folder}.{file}"
    return getattr(import_module(module), name or file, None) if find_spec(module) else None


def makes_pods(manifest: Mapping[str, Any]) -> bool:
    """Whether the controller of its kind is known here."""
    return GroupKind.of(manifest) in FOLDERS


def defaults(manifest: Mapping[str, Any]) -> Tree:
    """The object as it is stored: see :class:`Defaults`. Of a kind that is not known here, it is as it was."""
    key = GroupKind.of(manifest)
    if fill_in := _OF_THE_CORE.get(key):
        stored = copy.deepcopy(dict(manifest))
        if isinstance(stored.get("spec"), dict):
            fill_in(stored["spec"])
        return stored
    part: Defaults | None = _part(FOLDERS[key], "defaults") if key in FOLDERS else None
    return part(manifest) if part else dict(manifest)


def pods(manifest: Mapping[str, Any], around: Around) -> Made:
    """What the controller of its kind makes of an object: see :class:`Pods`. A kind that is not known raises ``KeyError``."""
    part: Pods = _part(FOLDERS[GroupKind.of(manifest)], "pods")
    return part(manifest, around)


def made(manifest: Mapping[str, Any], around: Around) -> Made | None:
    """The same of an object as it is stored, which may be anything; None where its controller could not read it."""
    try:
        return pods(defaults(manifest), around) if makes_pods(manifest) else None
    except (AttributeError, KeyError, LookupError, TypeError, ValueError):
        return None


def resized(manifest: Mapping[str, Any], around: Around, size: Size) -> Tree:
    """The object for fewer pods: see :class:`Resized`. One whose folder cannot say it comes back as it was."""
    part: Resized | None = _part(FOLDERS[GroupKind.of(manifest)], "pods", "resized")
    return part(manifest, around, size) if part else dict(manifest)


def ended(manifest: Mapping[str, Any], around: Around) -> Controller | None:
    """What the controller of its kind does when pods of an object end: see :class:`Ended`."""
    part: Ended = _part(FOLDERS[GroupKind.of(manifest)], "ended")
    return part(manifest, around)


def status(manifest: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], wanted: int | None = None) -> Standing:
    """Where an object of a cluster stands: by what its operator says (see :class:`Status`), else by its pods.

    It does not know why something waits, or whether ranks that run do train.

    Args:
        manifest: with its status.
        pods: of the object and of its children, with theirs.
        wanted: pods that its controller makes, where the object alone does not say it.
    """
    key = GroupKind.of(manifest)
    if key not in FOLDERS:
        return Standing("unknown", f"nothing is known of a {key}")
    part: Status = _part(FOLDERS[key], "status")
    return part(manifest) or by_pods(pods, pods_wanted(manifest, Around()) if wanted is None else wanted)


def pods_wanted(manifest: Mapping[str, Any], around: Around) -> int:
    """Pods that its controller makes; 0 where that stands in an object that is not at hand, such as a TrainJob's runtime, and for
    an object of a shape that its controller could not read.
    """
    try:
        return len(pods(manifest, around).pods)
    except (LookupError, TypeError, ValueError):
        return 0


def said(manifest: Mapping[str, Any], around: Around) -> Said | None:
    """What an object of somebody else says of its run: see :class:`Says`. None where its kind carries none that is known here."""
    key = GroupKind.of(manifest)
    part: Says | None = _part(_SAYING[key], "said") if key in _SAYING else None
    return part(manifest, around) if part else None


def uid(manifest: Mapping[str, Any]) -> str:
    """Of an object in a cluster; of one in a file, one that is always the same."""
    metadata = manifest["metadata"]
    full_name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
    return str(metadata.get("uid") or uuid.uuid5(uuid.NAMESPACE_DNS, full_name))


def child(owner: Mapping[str, Any], kind: str, name: str, version: str = "v1", **fields: Any) -> Tree:
    """An object that a controller makes for another one, which goes when that goes.

    Args:
        owner: whose it is; it is made in its namespace.
        kind: of the child.
        name: of the child.
        version: ``apiVersion`` of the child.
        fields: further ones; ``metadata`` is added to the child's own.
    """
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": uid(owner),
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    metadata = {"name": name, "namespace": owner["metadata"].get("namespace", "default"), **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": {**metadata, "ownerReferences": [reference]}, **fields}
