"""What a project has made in a namespace of a cluster: a ConfigMap there, with the uid of each object.

Labels say what an object is for, and another repository's may say the same. A uid says that it is the object that was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trainwright.identity import short_hash
from trainwright.live.kubectl import Object
from trainwright.manifest.kinds import ObjectKey
from trainwright.manifest.labels import KEEP, MANAGED
from trainwright.project.record import manifests_digest

INVENTORY = "trainwright.dev/inventory"
"""Annotation of an object that was made: the name of the inventory. By it an object is known whose uid was not written down,
because the program was killed between the two."""
CONTENT = "trainwright.dev/content"
"""Annotation of an object that was made: a digest of its manifest. Kueue and others write into the object itself."""
FOUNDATION = ""
"""Whose objects those of a foundation are, where others are a run's."""
_UNKNOWN = "-"
"""In place of the uid of an object that is about to be made, or to go."""


class Entry(NamedTuple):
    """An object that was made, or is about to be."""

    api_version: str
    kind: str
    name: str
    uid: str = ""

    def key(self, namespace: str) -> ObjectKey:
        return ObjectKey(self.api_version.rpartition("/")[0], self.kind, namespace, self.name)


class Made(NamedTuple):
    """What was made of a run, or of a foundation."""

    commit: str
    """Of the project, that it was last applied from; empty until it was applied as a whole."""
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Of one project, one cluster profile and one namespace."""

    project: str
    cluster: str
    namespace: str
    made: Mapping[str, Made] = field(default_factory=dict)
    """Run, or ``FOUNDATION`` -> what was made of it."""
    version: str = ""
    """``resourceVersion`` of the ConfigMap, so that two who apply at once do not overwrite each other's; empty where none is."""

    @property
    def name(self) -> str:
        return f"trainwright-inventory-{short_hash([self.project, self.cluster])}"

    def marked(self, manifest: Mapping[str, Any]) -> Object:
        """A manifest with the annotations of an object that is ours."""
        metadata = manifest["metadata"]
        own = {INVENTORY: self.name, CONTENT: manifests_digest([manifest])}
        return {**manifest, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **own}}}

    def owns(self, live: Object) -> bool:
        """Whether an object in the cluster is one that was made."""
        uid, marked = live["metadata"]["uid"], annotation(live, INVENTORY) == self.name
        return marked or any(uid == entry.uid for made in self.made.values() for entry in made.entries)

    def is_of(self, entry: Entry, live: Object) -> bool:
        """Whether an object in the cluster is the one of an entry; without a uid, the object itself says so."""
        return bool(live["metadata"]["uid"] == entry.uid) if entry.uid else self.owns(live)

    def has_made(self, key: ObjectKey) -> bool:
        """Whether an object was made, and its uid written down."""
        return any(entry.uid and entry.key(self.namespace) == key for made in self.made.values() for entry in made.entries)

    def read(self, stored: Object | None) -> Inventory:
        """With what the ConfigMap says."""
        if stored is None:
            return self
        made = {key.removeprefix("run.") if key != "foundation" else FOUNDATION: _made(text)
                for key, text in (stored.get("data") or {}).items()}
        return Inventory(self.project, self.cluster, self.namespace, made, stored["metadata"]["resourceVersion"])

    @property
    def data(self) -> dict[str, str]:
        """As the ConfigMap holds it: a key for each run, and for each object a line."""
        return {f"run.{run}" if run else "foundation": _text(made) for run, made in sorted(self.made.items())
                if made.entries or (run == FOUNDATION and made.commit)}

    @property
    def manifest(self) -> Object:
        version = {"resourceVersion": self.version} if self.version else {}
        says = {"trainwright.dev/project": self.project, "trainwright.dev/cluster": self.cluster}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "labels": dict(MANAGED), "annotations": says, **version,
            },
            "data": self.data,
        }  # fmt: skip


def _made(text: str) -> Made:
    head, *lines = text.splitlines()
    entries = (Entry(*line.split()) for line in lines)
    known = tuple(entry if entry.uid != _UNKNOWN else entry._replace(uid="") for entry in entries)
    return Made(head.removeprefix("commit").strip(), known)


def _text(made: Made) -> str:
    return "\n".join((f"commit {made.commit}", *(" ".join((*entry[:3], entry.uid or _UNKNOWN)) for entry in made.entries))) + "\n"


def annotation(live: Object, key: str) -> str:
    return str((live["metadata"].get("annotations") or {}).get(key, ""))


def is_kept(manifest: Mapping[str, Any]) -> bool:
    """Whether an object is never removed: a namespace, a claim, or what else must outlive the runs that need it now."""
    return KEEP.items() <= (manifest["metadata"].get("annotations") or {}).items()
