"""Kinds of objects: what tells objects apart, and what is known of each kind that a run is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class GroupKind(NamedTuple):
    """What the API server tells kinds apart by: ``Job`` alone is a kind of Kubernetes and one of Volcano."""

    group: str
    """Empty for Kubernetes' core group."""
    kind: str

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> GroupKind:
        """The kind of a manifest that states apiVersion and kind."""
        return cls(str(manifest["apiVersion"]).rpartition("/")[0], str(manifest["kind"]))

    def __str__(self) -> str:
        """As kubectl takes it: ``Job.batch``."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


class ObjectKey(NamedTuple):
    """What the API server tells objects apart by."""

    group: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> ObjectKey:
        """The key of a manifest that states apiVersion, kind and metadata.name."""
        metadata = manifest["metadata"]
        return cls(*GroupKind.of(manifest), str(metadata.get("namespace", "")), str(metadata["name"]))


class Owned(NamedTuple):
    """A part of an object that belongs to the plan, so that no override may touch it."""

    pattern: str
    """A regular expression for the whole pointer."""
    what: str
    fix: str
    """The run's own field that says it better, or why there is none."""


Reasons = Mapping[str, str]
"""Pointer into an object -> why the constants below it are as they are; the nearest entry answers for a line."""


class ObjectKind(NamedTuple):
    """A kind of object that the compiler writes."""

    key: GroupKind
    reasons: Reasons
    """With an entry for the whole object, the empty pointer."""
    owned: tuple[Owned, ...] = ()
    """Besides metadata, and besides what every pod template owns."""
    free: tuple[str, ...] = ()
    """Pointers of fields that the compiler does not write and that an override may add, in a kind that is not Kubernetes' own.
    The kind's schema may not be at hand, and the API server drops a field that it does not have."""
    mutable: tuple[str, ...] = ()
    """Pointers, besides labels and annotations, that may change in place and so stay out of a run's identity."""


def reasons_by_kind(kinds: Iterable[ObjectKind]) -> dict[GroupKind, Reasons]:
    """The reasons of all these kinds; for a kind that is listed twice, the later reasons win."""
    merged: dict[GroupKind, Reasons] = {}
    for kind in kinds:
        merged[kind.key] = {**merged.get(kind.key, {}), **kind.reasons}
    return merged
