"""Which object of ours is which of the original, and which names of objects stand in other ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun
from trainwright.findings.locate import tokens
from trainwright.importing.accounting.pairing import Place, element_pairs, leaves
from trainwright.importing.read import WRAPPERS
from trainwright.manifest import foundation
from trainwright.manifest.kinds import GroupKind, Reasons, reasons_by_kind
from trainwright.manifest.provenance import Provenance, split
from trainwright.objects.fields import items
from trainwright.operators.operator import Around, made, makes_pods

Manifest = dict[str, Any]


class Compiled(NamedTuple):
    """An object of ours, and where its values come from."""

    manifest: Manifest
    provenance: Provenance
    reasons: Reasons


def compiled_objects(run: CompiledRun) -> list[Compiled]:
    """What a run compiles to."""
    pairs = zip(run.manifests, run.provenance(), strict=True)
    return [Compiled(one, known, run.reasons.get(GroupKind.of(one), {})) for one, known in pairs]


def foundation_objects(cluster: Cluster, namespace: str) -> list[Compiled]:
    """What a namespace has for its runs."""
    reasons = reasons_by_kind(foundation.KINDS)
    traced = map(split, foundation.foundation(cluster, namespace))
    return [Compiled(one, known, reasons.get(GroupKind.of(one), {})) for one, known in traced]


class View(NamedTuple):
    """A manifest of the original, or the part of an AppWrapper that is one."""

    owner: int
    """Number of the object that it stands in."""
    tree: Manifest
    place: Place = ()
    pointer: str = ""
    apart: tuple[str, ...] = ()
    """Pointers of parts that are views of their own."""

    @property
    def name(self) -> str:
        return name_of(self.tree)


def name_of(manifest: Manifest) -> str:
    """Of an object, or what the API server would begin it with."""
    metadata = manifest.get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName") or "")


def views(original: Sequence[Manifest]) -> Iterator[View]:
    """All objects, with what is wrapped beside what wraps it."""
    for number, manifest in enumerate(original):
        parts = {
            f"{pointer}/{index}/{held}": item[held]
            for pointer, held in WRAPPERS.get(GroupKind.of(manifest), ())
            for index, item in items(manifest, pointer)
            if isinstance(item.get(held), dict)
        }
        yield from (View(number, tree, tuple(tokens(pointer)), pointer) for pointer, tree in parts.items())
        yield View(number, manifest, apart=tuple(parts))


def matched(ones: Sequence[View], compiled: Sequence[Compiled]) -> dict[int, int]:
    """Number of a view -> of ours that it became: one of the same kind, by name, else the most alike. What carries the run is one
    object on either side, and what wraps it is held against the same one.
    """
    ours = [_kind(one.manifest) for one in compiled]
    pairs: dict[int, int] = {}
    for kind in dict.fromkeys(_kind(view.tree) for view in ones):
        there = [index for index, view in enumerate(ones) if _kind(view.tree) == kind]
        here = [number for number, key in enumerate(ours) if key == kind]
        contents = [_content(ones[index].tree) for index in there], [_content(compiled[number].manifest) for number in here]
        pairs.update((there[one], here[other]) for one, other in element_pairs("", *contents).items())
    carrier = next((number for number, one in enumerate(compiled) if makes_pods(one.manifest)), None)
    if carrier is not None:
        free = carrier not in pairs.values()
        for index, view in enumerate(ones):
            if GroupKind.of(view.tree) in WRAPPERS or (free and makes_pods(view.tree)):
                pairs.setdefault(index, carrier)
    return pairs


def labels_of_pods(objects: Sequence[Manifest]) -> list[dict[str, str]]:
    """Of the pods that controllers make of the original."""
    around = Around(objects)
    return [pod.labels for one in objects if (of_it := made(one, around)) for pod in of_it.every_pod]


def _kind(manifest: Manifest) -> tuple[str, str]:
    group, kind = GroupKind.of(manifest)
    return group, "TrainingRuntime" if kind == "ClusterTrainingRuntime" else kind


def _content(manifest: Manifest) -> Manifest:
    """What two objects may be alike in, with the name by which they are one."""
    content = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")}
    if manifest["kind"] == "ConfigMap":  # whatever the keys of its files are
        content = {"data": list((manifest.get("data") or {}).values())}
    return {"name": name_of(manifest), **content}


REFERENCES: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("persistentVolumeClaim", "claimName"), "PersistentVolumeClaim"),
    (("configMap", "name"), "ConfigMap"),
    (("configMapRef", "name"), "ConfigMap"),
    (("configMapKeyRef", "name"), "ConfigMap"),
    (("secret", "secretName"), "Secret"),
    (("secret", "name"), "Secret"),
    (("secretRef", "name"), "Secret"),
    (("secretKeyRef", "name"), "Secret"),
    (("imagePullSecrets", "*", "name"), "Secret"),
    (("serviceAccountName",), "ServiceAccount"),
    (("priorityClassName",), "PriorityClass"),
    (("subdomain",), "Service"),
    (("labels", "kueue.x-k8s.io/queue-name"), "LocalQueue"),
    (("runtimeRef", "name"), "TrainingRuntime"),
    (("resourceClaimTemplateName",), "ResourceClaimTemplate"),
    (("resourceClaimName",), "ResourceClaim"),
)
"""End of a place -> kind of the object whose name stands there."""


def refers_to(place: Place) -> str | None:
    """Kind of the object that is named at a place."""
    for end, kind in REFERENCES:
        if len(place) >= len(end) and all(part in ("*", mine) for part, mine in zip(end, place[-len(end) :], strict=True)):
            return kind
    return None


def references(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Kind and name of every object that is named in one."""
    for leaf in leaves(manifest):
        kind = refers_to(leaf.place)
        if kind is not None and isinstance(leaf.value, str):
            yield kind, leaf.value


def called(manifest: Manifest) -> tuple[str, str]:
    """Kind and name of an object, as :func:`references` has them."""
    return _kind(manifest)[1], name_of(manifest)
