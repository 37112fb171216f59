"""The objects of a run: why each value is as it is, where a leaf of the original may stand, and what is added."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from trainwright.findings.locate import Locator, at, escape, tokens
from trainwright.importing.accounting.matching import Compiled, Manifest, name_of, references
from trainwright.importing.accounting.pairing import ABSENT, Item, Leaf, Place, leaves
from trainwright.importing.accounting.rows import row_of, rows
from trainwright.importing.accounting.side import Side, equal
from trainwright.importing.neighbours import keeps_apart, level_of
from trainwright.manifest.pods import pods_in
from trainwright.manifest.provenance import Answer, answer_for
from trainwright.objects.stored import fill_in_pod
from trainwright.operators.operator import defaults, makes_pods


class Addition(NamedTuple):
    """What ours has for one reason, and the original has not."""

    why: str
    """What it is about."""
    fields: Mapping[str, str]
    """Each as a person names it, with its value -> why it is as it is."""


class Ours:
    """The objects of the run: why each value is as it is, and what no leaf of the original is."""

    def __init__(self, objects: Sequence[Compiled], sides: Sequence[Side], locate: Locator) -> None:
        self._objects, self._locate = objects, locate
        self._hosts = [side.hosts for side in sides if side.hosts and makes_pods(side.view.tree)]
        self.referred = {one for each in objects for one in references(each.manifest)}
        self.referred_there = {one for each in sides if makes_pods(each.view.tree) for one in references(each.view.tree)}
        """What the original's own pods refer to."""
        asked = ((side, leaf) for side in sides for leaf in side.leaves if leaf.mine is not ABSENT)
        taken = {(side.number, leaf.here) for side, leaf in asked if not side.is_of_the_server(leaf)}
        self._free = [
            (number, leaf)
            for number, one in enumerate(objects)
            for leaf in leaves(one.manifest)
            if (number, leaf.pointer) not in taken
        ]
        self._told = set[tuple[int, str]]()
        """Places that stand for a leaf of another place; what is below them too."""
        matched_to = {side.number for side in sides if side.number is not None}
        self._stored = {number: _stored(objects[number].manifest) for number in matched_to}

    def under_our_names(self, text: str) -> str:
        """A text in which hosts of the original's pods are those of ours."""
        for hosts in self._hosts:
            text = hosts.renamed(text)
        return text

    def manifest(self, number: int) -> Manifest:
        return self._objects[number].manifest

    def is_override(self, number: int, pointer: str) -> bool:
        return self._answer(number, pointer)[1].source.startswith("run:/overrides")

    def why(self, number: int, pointer: str) -> str:
        """Why a value of ours is as it is, and the place of the user's file that decides it."""
        found_at, answer = self._answer(number, pointer)
        where = self._locate.source(answer.source, pointer.partition("#")[0].removeprefix(found_at))
        return answer.reason if where is None else f"{answer.reason} ({where})"

    def _answer(self, number: int, pointer: str) -> tuple[str, Answer]:
        one = self._objects[number]
        return answer_for(one.provenance, one.reasons, pointer.partition("#")[0])

    def fills_in(self, number: int, leaf: Leaf) -> bool:
        """Whether API server or operator write a value where ours has none."""
        return leaf.here is not None and leaf.value is not None and at(self._stored[number], leaf.here) == leaf.value

    def file(self, number: int, leaf: Leaf) -> str | None:
        """The key of a ConfigMap of ours that has the same text."""
        texts = self._objects[number].manifest.get("data") or {}
        if leaf.place[0] != "data" or self._objects[number].manifest["kind"] != "ConfigMap":
            return None
        key = next((key for key in (leaf.place[-1], *texts) if texts.get(key) == leaf.value), None)
        if key is not None:
            self._told.add((number, f"/data/{escape(key)}"))
        return None if key is None else f"data/{key}"

    def files(self, number: int, side: Side, leaf: Leaf) -> list[str] | None:
        """Where ours mounts the files of a folder one by one."""
        container = side.pairing.mappings.get(leaf.pointer.rsplit("/", 3)[0])
        if leaf.place[-3:-2] != ("volumeMounts",) or container is None:
            return None
        mounts = at(self._objects[number].manifest, f"{container}/volumeMounts") or []
        paths = [str(mount.get("mountPath")) for mount in mounts]
        return [path for path in paths if path.startswith(f"{leaf.place[-2].rstrip('/')}/")] or None

    def instead(self, number: int, leaf: Leaf) -> tuple[str, Any] | None:
        """Pointer and value of what ours has in place of a field beside which nothing may stand: ``valueFrom`` for ``value``, or
        another source of a volume.
        """
        way = (leaf.here or "").split("/")
        for index, key in enumerate(way):
            group, above = next((one for one in _ONE_OF if key in one), ()), "/".join(way[:index])
            node = at(self._objects[number].manifest, above) if group else None
            if isinstance(node, dict) and key not in node:
                other = next((one for one in group if one in node), None)
                if other is None:
                    return None
                self._told.add((number, f"{above}/{other}"))
                return f"{above}/{other}", node[other]
        return None

    def selector(self, number: int, side: Side, leaf: Leaf) -> tuple[str, Any] | None:
        """Pointer and value of our selector in place of one by which pods find their like by other labels."""
        above, affinity, _ = leaf.pointer.partition("/spec/affinity/")
        nearest, found, _ = side.nearest(leaf).rpartition("/labelSelector/")
        template, name = at(side.view.tree, above), name_of(side.view.tree)
        if not (affinity and found and isinstance(template, dict)):
            return None
        apart = any(keeps_apart(template, name, labels) for labels in side.pods)
        if not (level_of([template], name) if "/podAffinity/" in leaf.pointer else apart):
            return None
        pointer = f"{nearest}/labelSelector"
        self._told.add((number, pointer))
        return pointer, at(self._objects[number].manifest, pointer)

    def elsewhere(self, number: int, side: Side, leaf: Leaf, wanted: Any) -> tuple[int, Leaf] | None:
        """The same field with the same value at another place: above the leaf, in its pod, or in another object."""
        key, within, here = leaf.place[-1], _within(leaf.place), side.nearest(leaf)
        for other, mine in self._free:
            if mine.place[-1] != key or not equal(mine.place, mine.value, wanted):
                continue
            above = mine.pointer.rpartition("/")[0]
            over = other == number and here.startswith(f"{above}/")
            near = other != number or here.startswith(f"{above.rpartition('/')[0]}/")
            if over or (near and within is not None and _within(mine.place) == within):
                self._told.add((other, mine.pointer))
                return other, mine
        return None

    def additions(self, numbers: Iterable[int], added: Iterable[int]) -> tuple[Addition, ...]:
        """What ours has beyond the original, by reason.

        Args:
            numbers: of objects that stand for one of the original.
            added: of those that stand for none.
        """
        found: dict[str, dict[str, str]] = {row["why"]: {} for row in rows()["adds"]}
        for number in numbers:
            kind = self._objects[number].manifest["kind"]
            told = tuple(f"{pointer}/" for other, pointer in self._told if other == number)
            free = [leaf for other, leaf in self._free if other == number and not f"{leaf.pointer}/".startswith(told)]
            bare = _without(self._objects[number].manifest, [leaf.pointer for leaf in free])
            for leaf in free:
                text, why = "/".join((kind, *leaf.place)), self.why(number, leaf.pointer)
                quiet = any(fnmatchcase(text, pattern) for pattern in rows()["quiet"])
                if not quiet and at(bare, leaf.pointer) != leaf.value:
                    row = row_of("adds", text, asked=self._answer(number, leaf.pointer)[1].source.startswith("run:/containers/"))
                    found.setdefault((row or {"why": why})["why"], {}).setdefault(_field(leaf), why)
        for number in added:
            manifest, why = self._objects[number].manifest, self.why(number, "")
            row = row_of("adds", manifest["kind"]) or {"why": why}
            found.setdefault(row["why"], {})[f"{manifest['kind']} {name_of(manifest)}"] = why
        return tuple(Addition(why, fields) for why, fields in found.items() if fields)


_ONE_OF = (
    ("value", "valueFrom"),
    ("event", "events"),
    ("backoffLimit", "backoffLimitPerIndex"),
    ("exec", "httpGet", "tcpSocket", "grpc"),
    (
        "hostPath", "emptyDir", "persistentVolumeClaim", "configMap", "secret", "nfs", "csi", "ephemeral", "projected",
        "downwardAPI", "image",
    ),
)  # fmt: skip
"""Fields of which an object has one."""


def _within(place: Place) -> str | None:
    """What a field is in, so that it is known again at another place; None in an element of a list, but for variables."""
    if len(place) < 2:
        return None
    if not isinstance(place[-2], Item):
        return place[-2]
    return None if place[-2].isdigit() else "/".join(place[-3:-1])


def _stored(manifest: Manifest) -> Manifest:
    """An object as API server and operator keep it, with what pods get from their kinds too."""
    stored = copy.deepcopy(defaults(manifest))
    for pod in pods_in(stored):
        fill_in_pod(pod.spec)
    return stored


def _without(manifest: Manifest, pointers: Iterable[str]) -> Manifest:
    """An object as it is stored without some of its fields; names of elements stay."""
    bare = copy.deepcopy(manifest)
    for pointer in pointers:
        above, _, key = pointer.rpartition("/")
        node = at(bare, above)
        if isinstance(node, dict) and key not in ("name", "containerPort", "port"):
            node.pop(tokens(pointer)[-1], None)
    return _stored(bare)


def _field(leaf: Leaf) -> str:
    """A leaf as a person names it, from its pod on, with its value."""
    place = list(leaf.place)
    starts = [index for index, part in enumerate(place) if part == "spec" and not isinstance(part, Item)]
    short = place[starts[-1] + 1 :] if starts and starts[-1] + 1 < len(place) else place
    for index, part in enumerate(short):
        if isinstance(part, Item) and short[index - 1] == "env":
            return f"env {part}"
        if isinstance(part, Item) and part.isdigit():
            return "/".join(short[:index])
    return f"{'/'.join(short)}: {leaf.value}"
