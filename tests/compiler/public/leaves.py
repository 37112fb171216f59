"""A public manifest held against what a run with the same meaning compiles to: every leaf of both is accounted for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

import yaml

from trainwright.units import Bytes, Cpu, UnitError

Data = dict[str, Any]
Path = tuple[str, ...]
Fate = Literal["same", "renamed", "law", "changed", "override", "missing"]

LAWS: Mapping[str, str] = {
    "metadata/generateName": "a name that the API server makes up is a new object at every sync",
    "spec/suspend": "who admits a run is the queue's business, and Kueue writes it in the cluster",
    "spec/runPolicy/ttlSecondsAfterFinished": "an object that goes by itself is made again at the next sync",
    "spec/ttlSecondsAfterFinished": "an object that goes by itself is made again at the next sync",
}
"""What no run of ours has, wherever it stands: pattern of a leaf -> why."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "role": ("replicatedJobs", "tasks", "workerGroupSpecs"),
    "container": ("containers",),
    "volume": ("volumes", "volumeMounts"),
}
"""Kind of name -> the lists whose elements have it. The name of the object is no choice of a case: theirs is ours."""

ANY = "any"
"""The value of an addition that differs from run to run."""


AS = "as "
"""Before the place whose leaves an addition repeats."""


class Item(str):
    """An element of a list, as a part of a path."""

    __slots__ = ()


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every scalar, empty list and empty mapping with its place, in a text that is YAML too. Elements of a list are known by
    their name or port, words of a command by themselves, others by number.
    """
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(yaml.safe_load(inner) if key.endswith("YAML") else inner, (*path, str(key)))
    elif isinstance(value, list) and value:
        for key, inner in zip(_keys(value), value, strict=True):
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def _keys(elements: Sequence[Any]) -> list[Item]:
    if all(isinstance(element, dict) for element in elements):
        for known_by in ("containerPort", "name"):
            names = [element.get(known_by) for element in elements]
            if None not in names and len(set(names)) == len(names):
                return [Item(name) for name in names]
        return [Item(index) for index in range(len(elements))]
    words = [str(element) for element in elements]
    return [_word(word, words[:index].count(word) + 1) for index, word in enumerate(words)]


def _word(word: str, occurrence: int) -> Item:
    return Item(f"{word} ({occurrence})")


@dataclass(frozen=True, slots=True)
class Change:
    """A leaf that stands here in another way."""

    why: str
    here: Mapping[str, Any]
    """Pattern of leaves of ours -> the value that each of them has."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a case says of the leaves that are not the same."""

    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Kind of name -> name there -> name here, one to one."""
    elements: Mapping[str, str] = field(default_factory=dict)
    """``list/element`` there, with more of its place before it if need be -> the element here, where no name says it."""
    changed: Mapping[str, Change] = field(default_factory=dict)
    override: Mapping[str, str] = field(default_factory=dict)
    """Pattern of leaves for which the run needs an override -> what it lacks."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Pattern of leaves that no run can have -> why."""


def names_of(manifest: Data) -> Mapping[str, set[str]]:
    """Kind of name -> the names of that kind in a manifest."""
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for path, value in leaves(manifest):
        if (kind := _kind_of(path)) is not None:
            found[kind].add(str(value))
    return found


def _kind_of(path: Path) -> str | None:
    """Of the name that stands at a place; nothing where none does."""
    if len(path) < 3 or not isinstance(path[-2], Item) or path[-1] not in ("name", "groupName"):
        return None
    return next((kind for kind, lists in KINDS.items() if path[-3] in lists), None)


class Comparison:
    """One object of a public manifest and ours.

    Raises:
        AssertionError: A leaf differs and no reason is given, a reason is given that no leaf needs, or a name is no name there.
    """

    def __init__(self, theirs: Data, ours: Data, expected: Expected) -> None:
        self._expected = expected
        self._here = dict(leaves(ours))
        self._names = dict(expected.names)
        self._hosts = _hosts(theirs, ours, expected.names.get("role", {}))
        self._used: set[str] = set()
        self._taken: dict[Path, Path] = {}
        self.fates: dict[str, Fate] = {}
        self._check_names(theirs, ours)
        self._check_order(theirs, ours)
        for path, value in leaves(theirs):
            self._account(path, value)

    @property
    def used(self) -> set[str]:
        """What a leaf needed: patterns, elements, and names as ``kind/name``."""
        return self._used

    @property
    def accounted(self) -> set[Path]:
        """The leaves of ours that a leaf of theirs became."""
        return set(self._taken)

    def _check_names(self, theirs: Data, ours: Data) -> None:
        there, here = names_of(theirs), names_of(ours)
        for kind, names in self._names.items():
            assert kind in KINDS, f"{kind} is no kind of name: {sorted(KINDS)}"
            if not there[kind]:
                continue  # an object without such names, beside the one that has them
            for name, mine in names.items():
                assert name in there[kind], f"{name} is no {kind} there: {sorted(there[kind])}"
                assert mine in here[kind], f"{mine} is no {kind} here: {sorted(here[kind])}"
                assert name != mine, f"{name} has its name here too"
            kept = [names.get(name, name) for name in sorted(there[kind])]
            assert len(set(kept)) == len(kept), f"two names of a {kind} became one: {kept}"

    def _check_order(self, theirs: Data, ours: Data) -> None:
        """Words are known by themselves, so that one that is left out does not move all others; their order is checked here."""
        here = dict(_texts(ours))
        for path, words in _texts(theirs):
            found = here.get(self._moved(path), [])
            there, mine = [word for word in words if word in found], [word for word in found if word in words]
            assert there == mine, f"{'/'.join(path)} has its words in another order: {mine}"

    def _account(self, path: Path, value: Any) -> None:
        text, kept = "/".join(path), self._found(path, value)
        for fate, patterns in self._reasons():
            for pattern, reason in patterns.items():
                if fnmatchcase(text, pattern):
                    assert kept is None, f"{text} stands here as it is, and needs no reason"
                    self._used.add(pattern)
                    self.fates[text] = fate
                    if isinstance(reason, Change):
                        self._check_change(text, value, reason)
                    assert fate != "law" or self._moved(path) not in self._here, f"{text} stands here"
                    return
        assert kept is not None, f"{text}: {value!r} there; {self._near(path)} here, and no reason is given"
        self.fates[text], there = kept
        self._note(path, value)
        assert self._taken.setdefault(there, path) == path, f"{text} and {'/'.join(self._taken[there])} became one"

    def _reasons(self) -> list[tuple[Fate, Mapping[str, Any]]]:
        expected = self._expected
        return [("law", LAWS), ("changed", expected.changed), ("override", expected.override), ("missing", expected.missing)]

    def _check_change(self, text: str, value: Any, change: Change) -> None:
        assert change.here, f"{text}: where it stands here is not said"
        for pattern, stated in change.here.items():
            found = {path: mine for path, mine in self._here.items() if fnmatchcase("/".join(path), pattern)}
            assert found, f"{text}: nothing is at {pattern} here"
            expected = value if stated is None else stated
            assert set(map(repr, found.values())) == {repr(expected)}, f"{text}: {pattern} is {found}, and not {expected!r}"
            for path in found:
                self._taken.setdefault(path, tuple(text.split("/")))

    def _found(self, path: Path, value: Any) -> tuple[Fate, Path] | None:
        """As what a leaf is here, and where."""
        there = self._moved(path)
        if there not in self._here:
            return None
        wanted = self._renamed(path, value)
        if not _equal(path, self._here[there], wanted):
            return None
        return ("same" if there == path and wanted == value else "renamed"), there

    def _renamed(self, path: Path, value: Any) -> Any:
        """A leaf under our names: a name where names of its kind stand, and in other texts the hosts that names make."""
        if not isinstance(value, str):
            return value
        if path == ("metadata", "name"):
            return self._hosts.object_here
        if (kind := _kind_of(path)) is not None:
            return self._names.get(kind, {}).get(value, value)
        return self._hosts.renamed(value)

    def _moved(self, path: Path) -> Path:
        """The place of a leaf among our elements."""
        moved: list[str] = []
        for index, part in enumerate(path):
            moved.append(self._element(path[:index], part) if isinstance(part, Item) else part)
        return tuple(moved)

    def _element(self, way: Path, part: Item) -> Item:
        if (stated := self._stated(way, part)) is not None:
            return Item(self._expected.elements[stated])
        within = way[-1] if way else ""
        for kind, lists in KINDS.items():
            if within in lists:
                return Item(self._names.get(kind, {}).get(part, part))
        word = re.fullmatch(r"(.*) \((\d+)\)", part, re.DOTALL)
        return part if word is None else _word(self._hosts.renamed(word[1]), int(word[2]))

    def _note(self, path: Path, value: Any) -> None:
        """Which elements and names a leaf that is native needed."""
        if (kind := _kind_of(path)) is not None and value in self._names.get(kind, {}):
            self._used.add(f"{kind}/{value}")
        stated = (self._stated(path[:index], part) for index, part in enumerate(path) if isinstance(part, Item))
        self._used.update(one for one in stated if one is not None)

    def _stated(self, way: Path, part: Item) -> str | None:
        """What a case says of an element, by the end of its place."""
        place = f"/{'/'.join((*way, part))}"
        return next((one for one in self._expected.elements if place.endswith(f"/{one}")), None)

    def _near(self, path: Path) -> str:
        return repr(self._here.get(self._moved(path), "nothing"))


@dataclass(frozen=True, slots=True)
class _Hosts:
    """The hosts that an object's name makes, and the files that Volcano calls by its tasks: where names stand in other texts."""

    object_there: str
    object_here: str
    roles: Mapping[str, str]

    def renamed(self, text: str) -> str:
        """``pytorch-workers-0-0.pytorch`` and ``/etc/volcano/mpiworker.host`` under our names; nothing else of a text."""
        if self.object_there and self.roles:
            roles = "|".join(map(re.escape, sorted(self.roles, key=len, reverse=True)))
            name = re.escape(self.object_there)
            text = re.sub(rf"(?<![\w.-]){name}-({roles})((?:-\d+)+)(\.{name})?(?![\w-])", self._host, text)
        return re.sub(r"(?<=/etc/volcano/)([\w-]+)(?=\.host\b)", lambda task: self.roles.get(task[1], task[1]), text)

    def _host(self, host: re.Match[str]) -> str:
        domain = f".{self.object_here}" if host[3] else ""
        return f"{self.object_here}-{self.roles[host[1]]}{host[2]}{domain}"


def _hosts(theirs: Data, ours: Data, roles: Mapping[str, str]) -> _Hosts:
    replicas = [inner for stated, inner in (theirs.get("spec") or {}).items() if stated.endswith("ReplicaSpecs")]
    known = {*(key.lower() for inner in replicas for key in inner), *names_of(theirs)["role"]}
    return _Hosts(
        (theirs.get("metadata") or {}).get("name", ""),
        (ours.get("metadata") or {}).get("name", ""),
        {role: roles.get(role, role) for role in known},
    )


def compare(pairs: Iterable[tuple[Data, Data]], expected: Expected) -> list[Comparison]:
    """Each object there and what it is here.

    Raises:
        AssertionError: as a comparison, or what a case says is needed by no leaf of any of them.
    """
    done = [Comparison(theirs, ours, expected) for theirs, ours in pairs]
    needed = set().union(*(one.used for one in done))
    stated = {*expected.changed, *expected.override, *expected.missing, *expected.elements}
    stated |= {f"{kind}/{name}" for kind, names in expected.names.items() for name in names}
    assert stated <= needed, f"no leaf needs {sorted(stated - needed)}"
    return done


def additions(objects: Iterable[tuple[Data, set[Path]]], added: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The patterns ``kind/path`` that were needed for what objects of ours have beyond the leaves that are accounted for.

    Raises:
        AssertionError: A leaf is on no list.
    """
    needed = set[str]()
    for ours, accounted in objects:
        here = {"/".join((ours["kind"], *path)): value for path, value in leaves(ours)}
        for text in here.keys() - {"/".join((ours["kind"], *path)) for path in accounted}:
            pattern = next((one for values in added.values() for one in values if _allowed(one, values[one], text, here)), None)
            assert pattern is not None, f"{text}: {here[text]!r} is here, and not in the original, and no reason is given"
            needed.add(pattern)
    return needed


def _allowed(pattern: str, stated: Any, text: str, here: Mapping[str, Any]) -> bool:
    if not fnmatchcase(text, pattern):
        return False
    if stated == ANY:
        return True
    if isinstance(stated, str) and stated.startswith(AS):
        twin = stated.removeprefix(AS) + text.removeprefix(pattern.rstrip("*"))
        return twin in here and here[twin] == here[text]
    return bool(stated == here[text] and type(stated) is type(here[text]))


def _texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, list[str]]]:
    """Every list of texts with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*path, str(key)))
    elif isinstance(value, list) and value and all(isinstance(inner, str) for inner in value):
        yield path, list(_keys(value))
    elif isinstance(value, list):
        for key, inner in zip(_keys(value), value, strict=True):
            yield from _texts(inner, (*path, key))


def _equal(path: Path, ours: Any, theirs: Any) -> bool:
    if ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool):
        return True
    return "resources" in path and _quantity(path[-1], ours) == _quantity(path[-1], theirs)


def _quantity(name: str, value: Any) -> Any:
    """Amounts, however they are written."""
    try:
        return Cpu.parse(str(value)).millicores if name == "cpu" else Bytes.parse(str(value)).bytes
    except UnitError:
        return str(value)
