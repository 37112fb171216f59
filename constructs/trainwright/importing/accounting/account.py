"""What became of each leaf of manifests that were imported, by what the run compiles to and not by what anybody claims of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trainwright.findings.locate import Locator, at
from trainwright.importing.accounting.commands import same_meaning
from trainwright.importing.accounting.matching import (
    Compiled,
    Manifest,
    View,
    called,
    labels_of_pods,
    matched,
    name_of,
    views,
)
from trainwright.importing.accounting.ours import Addition, Ours
from trainwright.importing.accounting.pairing import ABSENT, Leaf, kind_of_name
from trainwright.importing.accounting.rows import otherwise, row_of, rows
from trainwright.importing.accounting.side import Fate, Side
from trainwright.importing.secrets import HIDDEN
from trainwright.objects.fields import items, text
from trainwright.operators.operator import makes_pods
from trainwright.variables.secret import has_secret, looks_secret


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
    original: Sequence[Manifest],
    compiled: Sequence[Compiled],
    beside: Sequence[Compiled] = (),
    locate: Locator | None = None,
    unknown: Sequence[Collection[str]] = (),
) -> list[Account]:
    """What became of the objects of one run, in their order.

    Args:
        original: the workload, and what belongs to it.
        compiled: all objects of the run.
        beside: those of its namespace's foundation.
        locate: where the run and its profile are written.
        unknown: of each object of the original, pointers of the fields that its kind does not have.
    """
    ones, ours = list(views(original)), [*compiled, *beside]
    pairs = matched(ones, ours)
    names = {called(ones[index].tree): name_of(ours[number].manifest) for index, number in pairs.items()}
    pods = labels_of_pods([view.tree for view in ones])
    no_fields = unknown or [()] * len(original)
    sides = [Side(view, pairs.get(index), ours, names, pods, no_fields[view.owner]) for index, view in enumerate(ones)]
    here = Ours(ours, sides, locate or Locator())
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
    side = Side(View(0, manifest), None, (), {})
    lost = [_Said(side, leaf)(Fate.LEFT_OUT, why="no run compiles of it", lost=True) for leaf in side.leaves]
    return Account(str(manifest["kind"]), name_of(manifest), tuple(lost), ())


def _verdict(side: Side, leaf: Leaf, ours: Ours) -> Verdict:
    said = _Said(side, leaf)
    if side.number is not None and (file := ours.file(side.number, leaf)) is not None:
        return _of_a_file(said, leaf, file, ours)
    kept = side.kept(leaf)
    if kept is not None and side.number is not None and leaf.here is not None:
        override = ours.is_override(side.number, leaf.here)
        return said(Fate.OVERRIDE if override else kept, leaf.mine, "an override of the run keeps it" if override else "")
    row = row_of("never", said.text, leaf.value)
    if row is not None and ("value" not in row or leaf.mine is ABSENT):  # a value says nothing only where ours says nothing
        return said(Fate.LEFT_OUT, why=row["why"], listed=True)
    if side.is_of_the_server(leaf):
        return said(Fate.LEFT_OUT, why="the API server or the operator wrote it", listed=True)
    if leaf.value is None:
        return said(Fate.LEFT_OUT, why="a null is as good as nothing: the API server drops it", listed=True)
    if side.is_unknown(leaf) and leaf.mine is ABSENT:
        return said(Fate.LEFT_OUT, why="its kind has no such field, and nothing reads it", listed=True)
    if side.number is None:
        return _of_an_object(said, side, ours)
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


def _absent(said: _Said, side: Side, number: int, leaf: Leaf, ours: Ours) -> Verdict:
    """Of a leaf where ours has nothing."""
    if leaf.value in ([], {}):
        return said(Fate.LEFT_OUT, why="it is empty, and says nothing", listed=True)
    if _is_of_a_filled_volume(side.view.tree, leaf):
        return said(Fate.LEFT_OUT, why="the node mounts a volume that it fills itself read-only anyway", listed=True)
    if ours.fills_in(number, leaf):
        return said(Fate.LEFT_OUT, why="the API server or the operator writes the same by itself")
    if (files := ours.files(number, side, leaf)) is not None:
        return said(Fate.CHANGED, files, "each file of the run stands at its own path, where its folder may have others")
    known = otherwise(said.text, side.view.tree, leaf)
    if (instead := ours.instead(number, leaf) or ours.selector(number, side, leaf)) is not None:
        fate = Fate.RENAMED if isinstance(instead[1], list) and leaf.value in instead[1] else Fate.CHANGED
        return said(fate, instead[1], known or ours.why(number, instead[0]), stands=instead[0][1:])
    wanted = side.renamed(leaf.place, leaf.value) if isinstance(leaf.value, str) else leaf.value
    if (found := ours.elsewhere(number, side, leaf, wanted)) is not None:
        why = known or f"the same at another place: {ours.why(found[0], found[1].pointer)}"
        return said(Fate.CHANGED, found[1].value, why, stands="/".join(found[1].place))
    if known is not None:
        return said(Fate.LEFT_OUT, why=known)
    return said(Fate.LEFT_OUT, why="no word of the run says it, and no override keeps it", lost=True)


def _is_of_a_filled_volume(tree: Manifest, leaf: Leaf) -> bool:
    """Whether it says that the mount of a Secret or the like is read-only."""
    if leaf.value is not True or (*leaf.place[-3:-2], leaf.place[-1]) != ("volumeMounts", "readOnly"):
        return False
    name = text(tree, leaf.pointer.rpartition("/")[0] + "/name")
    volumes = items(tree, leaf.pointer.rsplit("/", 5)[0] + "/volumes")
    return any(text(volume, "/name") == name and not _FILLED.isdisjoint(volume) for _, volume in volumes)


_FILLED = frozenset({"secret", "configMap", "projected", "downwardAPI"})


def _of_a_file(said: _Said, leaf: Leaf, file: str, ours: Ours) -> Verdict:
    """Of a text that is a file of the run, whatever its key."""
    if (named := ours.under_our_names(leaf.value)) != leaf.value:
        why = "it names hosts that nothing has any more: they are called after the run's content, which no file of it can say"
        return said(Fate.CHANGED, leaf.value, f"{why}; as of this run it would be {named[:300]}", stands=file, lost=True)
    return said(Fate.SAME, leaf.value) if file == "/".join(leaf.place) else said(Fate.RENAMED, leaf.value, stands=file)


def _by_command(side: Side, number: int, leaf: Leaf, ours: Ours) -> tuple[str, str] | None:
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


def _of_an_object(said: _Said, side: Side, ours: Ours) -> Verdict:
    """Of a leaf of an object that stands for none of ours."""
    view, key = side.view, called(side.view.tree)
    for row in rows()["objects"]:
        held = (key in ours.referred or not row.get("referred")) and not (row.get("apart") and side.finds_pods)
        held = held and not (row.get("unnamed") and key in ours.referred_there)
        if view.tree["kind"] in row["kinds"] and held:
            return said(Fate.LEFT_OUT, why=row["why"], listed=True)
    return said(Fate.LEFT_OUT, why=f"no object of the run is this {view.tree['kind']}", lost=True)


class _Said:
    """What is said of one leaf."""

    def __init__(self, side: Side, leaf: Leaf) -> None:
        self._leaf, self._view = leaf, side.view
        self.text = "/".join((str(side.view.tree["kind"]), *leaf.place))
        self._secret = _is_secret(side.view.tree, leaf)

    def __call__(
        self, fate: Fate, now: Any = ABSENT, why: str = "", *, stands: str = "", listed: bool = False, lost: bool = False
    ) -> Verdict:
        place, was = [str(part) for part in (*self._view.place, *self._leaf.place)], self._leaf.value
        if self._secret:
            place = [part.replace(was, HIDDEN) if has_secret(was) else part for part in place]  # a word is its own name
            was = HIDDEN
        if isinstance(now, str) and (self._secret or has_secret(now)):
            now = HIDDEN
        pointer = self._view.pointer + self._leaf.pointer
        return Verdict(fate, "/".join(place), pointer, was, None if now is ABSENT else now, why, stands, listed, lost)


def _is_secret(tree: Manifest, leaf: Leaf) -> bool:
    """Whether a value must not be repeated."""
    if not isinstance(leaf.value, str) or leaf.value in ("", "true", "false"):
        return False
    *_, holder, name, last = ("", "", *leaf.place)
    variable = name if (holder, last) == ("env", "value") else last if name == "env_vars" else ""
    return (
        has_secret(leaf.value)
        or looks_secret(variable, leaf.value)
        or (tree["kind"] == "Secret" and leaf.place[0] in ("data", "stringData"))
    )
