"""What an apply would do: each object of ``dist/`` beside the one in the cluster, and each that was made beside ``dist/``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trainwright.apply.inventory import CONTENT, FOUNDATION, INVENTORY, Entry, Inventory, annotation, is_kept
from trainwright.live.kubectl import FIELD_MANAGER, Object
from trainwright.manifest.kinds import GroupKind, ObjectKey
from trainwright.manifest.labels import MANAGED, RUN_LABEL
from trainwright.operators.operator import makes_pods, status

Live = Mapping[ObjectKey, Object]

TRACKERS = (
    ("Argo CD", "annotations", "argocd.argoproj.io/tracking-id"),
    ("Argo CD", "labels", "argocd.argoproj.io/instance"),
    ("Flux", "labels", "kustomize.toolkit.fluxcd.io/name"),
    ("Flux", "labels", "helm.toolkit.fluxcd.io/name"),
)
"""By which a GitOps controller knows its objects: argo-cd docs/user-guide/resource_tracking.md, and flux2's kustomize- and
helm-controller."""
ARGO_LABEL = "app.kubernetes.io/instance"
"""Argo CD's own label in its older default; others have it too, so it counts where Argo CD has written into the object."""


class Wanted(NamedTuple):
    """An object of ``dist/``, with the annotations of one that is ours."""

    owner: str
    """A run, or ``FOUNDATION``."""
    manifest: Object

    @property
    def key(self) -> ObjectKey:
        return ObjectKey.of(self.manifest)


class Gone(NamedTuple):
    """An object that was made, is still there, and is not in ``dist/`` any more."""

    owner: str
    live: Object

    @property
    def key(self) -> ObjectKey:
        return ObjectKey.of(self.live)


@dataclass(slots=True)
class Plan:
    """What is to be done in one namespace."""

    make: list[Wanted] = field(default_factory=list)
    change: list[Wanted] = field(default_factory=list)
    remove: list[Gone] = field(default_factory=list)
    same: list[Wanted] = field(default_factory=list)
    ended: list[Wanted] = field(default_factory=list)
    """Made before, gone since, and not made again: each deletes itself when it has ended."""
    refused: list[str] = field(default_factory=list)
    """Why nothing is done at all, a sentence for each object."""
    notes: list[str] = field(default_factory=list)

    @property
    def wanted(self) -> list[Wanted]:
        return [*self.make, *self.change, *self.same]

    @property
    def starting(self) -> set[str]:
        """Runs whose workload is made."""
        return {one.owner for one in self.make if one.owner and makes_pods(one.manifest)}

    def __bool__(self) -> bool:
        return bool(self.make or self.change or self.remove)


def plan(inventory: Inventory, wanted: Sequence[Wanted], live: Live, runs: Collection[str], *, whole: bool) -> Plan:
    """Compare. Nothing is asked of the cluster.

    Args:
        inventory: what was made before.
        wanted: the objects of the foundation and of the runs.
        live: the objects of the namespace, and the namespace.
        runs: that this is about; those of them that are not wanted leave.
        whole: whether it is about everything, so that the foundation loses what nobody needs.
    """
    found = Plan()
    for one in wanted:
        _compare(found, inventory, one, live.get(one.key))
    keys = {one.key for one in wanted}
    for owner, made in inventory.made.items():
        if owner in runs or (owner == FOUNDATION and whole):
            for entry in made.entries:
                _leaves(found, inventory, owner, entry, keys, live.get(entry.key(inventory.namespace)))
    known = {key for made in inventory.made.values() for entry in made.entries
             if (there := live.get(key := entry.key(inventory.namespace))) and inventory.is_of(entry, there)}
    starting, others = found.starting, (one for key, one in live.items() if key not in keys | known)
    found.refused += [reason for one in others if (reason := _rival(one, starting))]
    _note_ended(found)
    return found


def _compare(found: Plan, inventory: Inventory, one: Wanted, there: Object | None) -> None:
    if there is None and _deletes_itself(one.manifest) and inventory.has_made(one.key):
        found.ended.append(one)
        found.notes.append(f"{named(one.manifest)} was made and is gone, by its `ttl` when it had ended, or by somebody: "
                           "it is not started again, which another `attempt` would do")
    elif there is None:
        found.make.append(one)
    elif tracker := tracked_by(there):
        found.refused.append(_tracked(there, *tracker))
    elif "deletionTimestamp" in there["metadata"]:
        found.make.append(one)  # once it is gone
    elif inventory.owns(there):
        same = annotation(there, CONTENT) == annotation(one.manifest, CONTENT)
        (found.same if same else found.change).append(one)
    elif _says(there, _without_marks(one.manifest)):
        found.same.append(one)
    elif is_kept(one.manifest):
        found.change.append(one)
    else:
        found.refused.append(
            f"{named(there)} is there already, and {_maker(there)} made it, not this project: rename ours, or delete that one"
        )


def _deletes_itself(tree: Any) -> bool:
    """Whether an object goes some time after its end; every operator has that field somewhere in its specification."""
    below = tree.values() if isinstance(tree, Mapping) else ()
    return isinstance(tree, Mapping) and ("ttlSecondsAfterFinished" in tree or any(map(_deletes_itself, below)))


def _leaves(
    found: Plan, inventory: Inventory, owner: str, entry: Entry, wanted: Collection[ObjectKey], there: Object | None
) -> None:
    """What was made and is not wanted any more; of another uid, it is not what was made."""
    if there is None or entry.key(inventory.namespace) in wanted or is_kept(there):
        return
    if not inventory.is_of(entry, there):
        found.notes.append(f"{named(there)} stays: it is not the object that was made here, but one of the same name")
    elif tracker := tracked_by(there):
        found.refused.append(_tracked(there, *tracker))
    else:
        found.remove.append(Gone(owner, there))


def _rival(there: Object, starting: Collection[str]) -> str:
    """Why a run must not start: another workload of its name, that is nobody's child, has not ended."""
    metadata = there["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(RUN_LABEL) not in starting or not MANAGED.items() <= labels.items():
        return ""
    if metadata.get("ownerReferences") or not makes_pods(there) or status(there, ()).phase in ("done", "failed"):
        return ""
    return (f"{named(there)} is of a run called {labels[RUN_LABEL]} too, and not in this project's inventory: "
            "both would train in one directory; delete it, or wait for its end")


def _note_ended(found: Plan) -> None:
    for gone in found.remove:
        standing = status(gone.live, ()) if makes_pods(gone.live) else None
        if standing and standing.phase in ("done", "failed"):
            found.notes.append(f"{named(gone.live)} has ended ({standing.phase}): nothing is stopped")


def tracked_by(live: Object) -> tuple[str, str] | None:
    """The GitOps controller whose object it is, and the label or annotation that says so."""
    metadata = live["metadata"]
    for tracker, part, key in TRACKERS:
        if key in (metadata.get(part) or {}):
            return tracker, key
    managers = {str(one.get("manager", "")) for one in metadata.get("managedFields") or ()}
    by_label = ARGO_LABEL in (metadata.get("labels") or {}) and any(one.startswith("argocd") for one in managers)
    return ("Argo CD", ARGO_LABEL) if by_label else None


def _tracked(live: Object, tracker: str, key: str) -> str:
    return (f"{named(live)} is {tracker}'s ({key}): two that apply one object undo each other's work; leave it to {tracker}, or "
            f"take it out of there and remove that mark")


def named(manifest: Mapping[str, Any]) -> str:
    return f"{GroupKind.of(manifest).kind} {manifest['metadata']['name']}"


def _maker(live: Object) -> str:
    """Who made an object, as far as it says so."""
    other = annotation(live, INVENTORY)
    managers = [str(one["manager"]) for one in live["metadata"].get("managedFields") or () if one.get("manager")]
    return f"another project ({other})" if other else managers[0] if managers else "somebody else"


def _without_marks(manifest: Object) -> Object:
    kept = {key: text for key, text in manifest["metadata"]["annotations"].items() if key not in (INVENTORY, CONTENT)}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": kept}}


def _says(live: Any, wanted: Any) -> bool:
    """Whether an object says all that a manifest does, and perhaps more."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(key in live and _says(live[key], value) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_says, live, wanted))
    return bool(live == wanted)


# What of a manifest is sent where the object is there already.


def without_theirs(manifest: Object, live: Object) -> Object:
    """A manifest without what others have written since into an object whose name follows from its content.

    Besides labels and annotations, nothing of it can have changed in Git, or its name would be another one. Kueue writes
    tolerations and node labels into the pod template (pkg/podset), an autoscaler the number of workers; to send ours again would
    be a conflict.
    """
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    for one in live["metadata"].get("managedFields") or ():
        mine = one.get("manager") == FIELD_MANAGER and one.get("operation") == "Apply"
        _merge(ours if mine else theirs, one.get("fieldsV1") or {})
    head = {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}
    rest = ((key, value) for key, value in manifest.items() if key not in head)
    return head | {key: kept for key, value in rest for kept in _kept(value, _below(theirs, key), _below(ours, key))}


def _merge(into: dict[str, Any], fields: Mapping[str, Any]) -> None:
    for key, value in fields.items():
        _merge(into.setdefault(key, {}), value)


def _below(fields: Mapping[str, Any] | None, key: str) -> Mapping[str, Any] | None:
    return None if fields is None else fields.get(f"f:{key}")


def _kept(value: Any, theirs: Mapping[str, Any] | None, ours: Mapping[str, Any] | None) -> Iterator[Any]:
    """The value without their fields; nothing where all of it is theirs. A field that we both have is ours."""
    if theirs is None:
        yield value
    elif ours is None:
        return
    elif isinstance(value, Mapping):
        yield {key: kept for key, one in value.items() for kept in _kept(one, _below(theirs, key), _below(ours, key))}
    elif isinstance(value, list):
        yield [kept for one in value for kept in _kept(one, _item(theirs, one), _item(ours, one))]
    else:
        yield value


def _item(fields: Mapping[str, Any], item: Any) -> Mapping[str, Any] | None:
    """The fields of a list's item that a manager has: https://github.com/kubernetes-sigs/structured-merge-diff, fieldpath."""
    for key, below in fields.items():
        if key.startswith("k:") and isinstance(item, Mapping) and json.loads(key[2:]).items() <= item.items():
            return dict(below)
        if key.startswith("v:") and json.loads(key[2:]) == item:
            return dict(below)
    return None
