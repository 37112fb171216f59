"""What became of each leaf of manifests that were imported, by what the run compiles to and not by what anybody claims of it."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.findings.locate import Locator, at, escape, tokens
from trainwright.importing.accounting.commands import same_meaning
from trainwright.importing.accounting.matching import (
    Compiled,
    Manifest,
    View,
    called,
    matched,
    name_of,
    references,
    refers_to,
    views,
)
from trainwright.importing.accounting.pairing import ABSENT, Hosts, Item, Leaf, Pairing, Place, kind_of_name, leaves
from trainwright.importing.read import as_applied
from trainwright.manifest.pods import pods_in
from trainwright.manifest.provenance import Answer, answer_for
from trainwright.objects.formats import amount
from trainwright.objects.stored import fill_in_pod
from trainwright.operators.operator import defaults, makes_pods
from trainwright.reading.rows import read_rows
from trainwright.variables.secret import has_secret, looks_secret


class Fate(StrEnum):
    """What a leaf is in ours."""

    SAME = "same"
    RENAMED = "renamed"
    """The same value where the place differs in names alone, or the name of an object that has another one."""
    CHANGED = "changed"
    OVERRIDE = "override"
    """The same, and an override of the run keeps it."""
    LEFT_OUT = "left_out"


class Verdict(NamedTuple):
    """One leaf of the original."""

    fate: Fate
    place: str
    """With names of elements, as people find it."""
    pointer: str
    was: Any
    now: Any = None
    """What stands in its place; None where nothing does."""
    why: str = ""
    at: str = ""
    """Where that stands, if it is another place."""
    listed: bool = False
    """Whether it is on the closed list of what no run has."""
    lost: bool = False
    """Whether nothing in ours says it, and no reason is known."""


class Addition(NamedTuple):
    """What ours has for one reason, and the original has not."""

    why: str
    """What it is about."""
    fields: Mapping[str, str]
    """Each as a person names it, with its value -> why it is as it is."""


@dataclass(frozen=True, slots=True)
class Account:
    """What became of one object."""

    kind: str
    name: str
    verdicts: tuple[Verdict, ...]
    """In the order of its leaves."""
    adds: tuple[Addition, ...]

    @property
    def counts(self) -> Counter[str]:
        """Fate -> leaves; those on the closed list are ``listed``."""
        return Counter("listed" if verdict.listed else verdict.fate.value for verdict in self.verdicts)


def native(counts: Mapping[str, int]) -> float:
    """The share of leaves that stand in ours as they are, or under our names; the closed list counts for nothing."""
    counted = sum(counts.values()) - counts.get("listed", 0)
    return (counts.get("same", 0) + counts.get("renamed", 0)) / counted if counted else 1.0


def account(
    original: Sequence[Manifest], compiled: Sequence[Compiled], beside: Sequence[Compiled] = (), locate: Locator | None = None
) -> list[Account]:
    """What became of the objects of one run, in their order.

    Args:
        original: the workload, and what belongs to it.
        compiled: all objects of the run.
        beside: those of its namespace's foundation.
        locate: where the run and its profile are written.
    """
    ones, ours = list(views(original)), [*compiled, *beside]
    pairs = matched(ones, ours)
    names = {called(ones[index].tree): name_of(ours[number].manifest) for index, number in pairs.items()}
    sides = [_Side(view, pairs.get(index), ours, names) for index, view in enumerate(ones)]
    here = _Ours(ours, sides, locate or Locator())
    carrier = next((index for index, view in enumerate(ones) if makes_pods(view.tree)), 0)
    added = [number for number in range(len(compiled)) if number not in pairs.values()]
    found = [[_verdict(side, leaf, here) for leaf in side.leaves] for side in sides]
    accounts = []
    for number, manifest in enumerate(original):
        mine = [index for index, view in enumerate(ones) if view.owner == number]
        verdicts = tuple(verdict for index in mine for verdict in found[index])
        objects = dict.fromkeys(pairs[index] for index in mine if index in pairs)
        adds = here.additions(objects, added if carrier in mine else ())
        accounts.append(Account(str(manifest["kind"]), name_of(manifest), verdicts, adds))
    return accounts


def unaccounted(manifest: Manifest) -> Account:
    """Of an object of which no run compiles."""
    side = _Side(View(0, manifest), None, (), {})
    lost = [_Said(side, leaf)(Fate.LEFT_OUT, why="no run compiles of it", lost=True) for leaf in side.leaves]
    return Account(str(manifest["kind"]), name_of(manifest), tuple(lost), ())


class _Side:
    """One object of the original, and ours of the same kind."""

    def __init__(self, view: View, number: int | None, ours: Sequence[Compiled], names: Mapping[tuple[str, str], str]) -> None:
        mine = {} if number is None else ours[number].manifest
        self.view, self.number, self._names = view, number, names
        self._hosts = None if number is None else Hosts.of(view.tree, mine)
        self.pairing = Pairing(view.tree, mine, self.renamed)
        stored = isinstance(at(view.tree, "/metadata/uid") or at(view.tree, "/metadata/resourceVersion"), str)
        self._applied = as_applied(view.tree) if stored else None
        found = self.pairing.leaves
        self.leaves = [leaf for leaf in found if not any(f"{leaf.pointer}/".startswith(f"{one}/") for one in view.apart)]

    def is_of_the_server(self, leaf: Leaf) -> bool:
        """Whether an object from a cluster has a leaf because the API server or an operator wrote it."""
        return self._applied is not None and leaf.value is not None and at(self._applied, leaf.pointer) is None

    def renamed(self, place: Place, text: str) -> str:
        """A text of the original under our names."""
        if place[-1:] == ("subdomain",) and self._hosts and text in self._hosts.services:
            return self._hosts.here
        if place[-1:] in _OF_ROLES and self._hosts:
            return self._hosts.roles.get(text, text)
        kind = refers_to(place)
        if kind is not None and (kind, text) in self._names:
            return self._names[kind, text]
        if place[-2:-1] in _LABELS:  # by which other objects find it
            return next((mine for (_, name), mine in self._names.items() if name == text), text)
        return self._hosts.renamed(text) if self._hosts else text

    def nearest(self, leaf: Leaf) -> str:
        """Where a leaf should stand in ours, or a place below the nearest mapping around it that ours has."""
        above = leaf.pointer
        while leaf.here is None and above not in self.pairing.mappings:
            above = above.rpartition("/")[0]
        return f"{self.pairing.mappings[above]}/" if leaf.here is None else leaf.here

    def kept(self, leaf: Leaf) -> Fate | None:
        """What a leaf is that ours has too; None for one that differs."""
        wanted = leaf.value
        if leaf.mine is ABSENT:
            return None
        if leaf.place == ("metadata", "name"):
            wanted = leaf.mine
        elif kind_of_name(leaf.place) is not None:
            wanted = self.pairing.name(leaf)
        elif isinstance(wanted, str) and not (leaf.place[-2:-1] in _LABELS and leaf.mine == wanted):
            wanted = self.renamed(leaf.place, wanted)
        if not _equal(leaf.place, leaf.mine, wanted):
            return None
        return Fate.RENAMED if leaf.renamed or wanted != leaf.value else Fate.SAME


_OF_ROLES = (("targetReplicatedJobs",), ("targetReplicatedJob",))
"""Lists of names of roles; the names are known before their elements are matched, as words are."""
_LABELS = (("labels",), ("matchLabels",), ("selector",))


def _equal(place: Place, mine: Any, wanted: Any) -> bool:
    if mine == wanted and isinstance(mine, bool) == isinstance(wanted, bool):
        return True
    amounts = not {"resources", "resourcesPerNode"}.isdisjoint(place) or place[-1] in ("sizeLimit", "storage")
    return amounts and amount(mine) is not None and amount(mine) == amount(wanted)


class _Ours:
    """The objects of the run: why each value is as it is, and what no leaf of the original is."""

    def __init__(self, objects: Sequence[Compiled], sides: Sequence[_Side], locate: Locator) -> None:
        self._objects, self._locate = objects, locate
        self.referred = {one for each in objects for one in references(each.manifest)}
        taken = {(side.number, leaf.here) for side in sides for leaf in side.leaves if leaf.mine is not ABSENT}
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
        key = next((key for key, text in texts.items() if text == leaf.value), None)
        if key is not None:
            self._told.add((number, f"/data/{escape(key)}"))
        return None if key is None else f"data/{key}"

    def files(self, number: int, side: _Side, leaf: Leaf) -> list[str] | None:
        """Where ours mounts the files of a folder one by one."""
        container = side.pairing.mappings.get(leaf.pointer.rsplit("/", 3)[0])
        if leaf.place[-3:-2] != ("volumeMounts",) or container is None:
            return None
        mounts = at(self._objects[number].manifest, f"{container}/volumeMounts") or []
        paths = [str(mount.get("mountPath")) for mount in mounts]
        return [path for path in paths if path.startswith(f"{leaf.place[-2]}/")] or None

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

    def elsewhere(self, number: int, side: _Side, leaf: Leaf, wanted: Any) -> tuple[int, Leaf] | None:
        """The same field with the same value at another place: above the leaf, in its pod, or in another object."""
        key, within, here = leaf.place[-1], _within(leaf.place), side.nearest(leaf)
        for other, mine in self._free:
            if mine.place[-1] != key or not _equal(mine.place, mine.value, wanted):
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
                    found.setdefault((_row("adds", text) or {"why": why})["why"], {}).setdefault(_field(leaf), why)
        for number in added:
            manifest, why = self._objects[number].manifest, self.why(number, "")
            row = _row("adds", manifest["kind"]) or {"why": why}
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


def _verdict(side: _Side, leaf: Leaf, ours: _Ours) -> Verdict:
    said = _Said(side, leaf)
    kept = side.kept(leaf)
    if kept is not None and side.number is not None and leaf.here is not None:
        override = ours.is_override(side.number, leaf.here)
        return said(Fate.OVERRIDE if override else kept, leaf.mine, "an override of the run keeps it" if override else "")
    if (row := _row("never", said.text)) is not None:
        return said(Fate.LEFT_OUT, why=row["why"], listed=True)
    if side.is_of_the_server(leaf):
        return said(Fate.LEFT_OUT, why="the API server or the operator wrote it", listed=True)
    if side.number is None:
        return _of_an_object(said, side.view, ours)
    if (alike := _by_command(side, side.number, leaf, ours)) is not None:
        return said(Fate.CHANGED, *alike)
    if leaf.mine is not ABSENT and leaf.here is not None:
        why = ours.why(side.number, leaf.here)
        if kind_of_name(leaf.place) in ("role", "container"):
            why = f"two names of the original are one in ours: {why}"
        elif leaf.mine == leaf.value and isinstance(leaf.value, str):
            why = f"nothing has this name any more: in ours it is {side.renamed(leaf.place, leaf.value)}"
            return said(Fate.CHANGED, leaf.mine, why, lost=True)
        return said(Fate.CHANGED, leaf.mine, why)
    return _absent(said, side, side.number, leaf, ours)


def _absent(said: _Said, side: _Side, number: int, leaf: Leaf, ours: _Ours) -> Verdict:
    """Of a leaf where ours has nothing."""
    if leaf.value in (None, [], {}) and leaf.value is not False:
        return said(Fate.LEFT_OUT, why="it is empty, and says nothing")
    if ours.fills_in(number, leaf):
        return said(Fate.LEFT_OUT, why="the API server or the operator writes the same by itself")
    if (file := ours.file(number, leaf)) is not None:
        return said(Fate.RENAMED, leaf.value, stands=file)
    if (files := ours.files(number, side, leaf)) is not None:
        return said(Fate.CHANGED, files, "each file of the run stands at its own path, where its folder may have others")
    known = _otherwise(said.text, side.view.tree, leaf)
    if (instead := ours.instead(number, leaf)) is not None:
        return said(Fate.CHANGED, instead[1], known or ours.why(number, instead[0]))
    wanted = side.renamed(leaf.place, leaf.value) if isinstance(leaf.value, str) else leaf.value
    if (found := ours.elsewhere(number, side, leaf, wanted)) is not None:
        why = known or f"the same at another place: {ours.why(found[0], found[1].pointer)}"
        return said(Fate.CHANGED, found[1].value, why, stands="/".join(found[1].place))
    if known is not None:
        return said(Fate.LEFT_OUT, why=known)
    return said(Fate.LEFT_OUT, why="no word of the run says it, and no override keeps it", lost=True)


def _by_command(side: _Side, number: int, leaf: Leaf, ours: _Ours) -> tuple[str, str] | None:
    """Our command, and why it says the same; None for a leaf that is no word, or one of another command."""
    if leaf.place[-2:-1] not in (("command",), ("args",)):
        return None
    pointer = leaf.pointer.rsplit("/", 2)[0]
    there, here = at(side.view.tree, pointer), at(ours.manifest(number), side.pairing.mappings.get(pointer, "/-"))
    if not isinstance(here, dict):
        return None
    why = same_meaning({key: [side.renamed((key,), str(word)) for word in there.get(key) or []] for key in _WORDS}, here)
    return None if why is None else (" ".join(str(word) for key in _WORDS for word in here.get(key) or []), why)


_WORDS = ("command", "args")


def _of_an_object(said: _Said, view: View, ours: _Ours) -> Verdict:
    """Of a leaf of an object that stands for none of ours."""
    referred = called(view.tree) in ours.referred
    for row in rows()["objects"]:
        if view.tree["kind"] in row["kinds"] and (referred or not row.get("referred")):
            return said(Fate.LEFT_OUT, why=row["why"], listed=True)
    return said(Fate.LEFT_OUT, why=f"no object of the run is this {view.tree['kind']}", lost=True)


class _Said:
    """What is said of one leaf."""

    def __init__(self, side: _Side, leaf: Leaf) -> None:
        self._leaf, self._view = leaf, side.view
        self.text = "/".join((str(side.view.tree["kind"]), *leaf.place))
        self._secret = _is_secret(side.view.tree, leaf)

    def __call__(
        self, fate: Fate, now: Any = ABSENT, why: str = "", *, stands: str = "", listed: bool = False, lost: bool = False
    ) -> Verdict:
        place, was = "/".join((*self._view.place, *self._leaf.place)), self._leaf.value
        if self._secret:
            place, was = place.replace(was, _HIDDEN), _HIDDEN
        if isinstance(now, str) and (self._secret or has_secret(now)):
            now = _HIDDEN
        pointer = self._view.pointer + self._leaf.pointer
        return Verdict(fate, place, pointer, was, None if now is ABSENT else now, why, stands, listed, lost)


_HIDDEN = "(a secret)"


def _is_secret(tree: Manifest, leaf: Leaf) -> bool:
    """Whether a value must not be repeated."""
    if not isinstance(leaf.value, str):
        return False
    variable = leaf.place[-3:-2] == ("env",) and leaf.place[-1] == "value"
    return (
        has_secret(leaf.value)
        or (variable and looks_secret(leaf.place[-2], leaf.value))
        or (tree["kind"] == "Secret" and leaf.place[0] in ("data", "stringData"))
    )


def _row(section: str, text: str) -> Mapping[str, Any] | None:
    """The first row of a list that has a place."""
    listed: Sequence[Mapping[str, Any]] = rows()[section]
    return next((row for row in listed if any(fnmatchcase(text, pattern) for pattern in row["leaves"])), None)


def _has(mapping: Mapping[str, Any], items: Mapping[str, Any]) -> bool:
    return all(mapping.get(key) == value for key, value in items.items())


def _otherwise(text: str, tree: Manifest, leaf: Leaf) -> str | None:
    """Why ours says a leaf in another way, or not at all, where that is known of its place."""
    around = [at(tree, leaf.pointer[:end]) for end, mark in enumerate(leaf.pointer) if mark == "/"]
    for row in rows()["otherwise"]:
        within = row.get("within")
        if (
            any(fnmatchcase(text, pattern) for pattern in row["leaves"])
            and row.get("value", leaf.value) == leaf.value
            and (not within or any(isinstance(one, dict) and _has(one, row["within"]) for one in around))
        ):
            return str(row["why"])
    return None


@cache
def rows() -> Mapping[str, Any]:
    """The lists of ``rows.yaml``: what is never carried, what is said in another way, and what ours adds."""
    lists: Mapping[str, Any] = read_rows(Path(__file__).with_name("rows.yaml"))
    return lists
