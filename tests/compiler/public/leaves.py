"""A public manifest held against what a run with the same meaning compiles to: every leaf of it is accounted for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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


def _keys(elements: Sequence[Any]) -> list[str]:
    if all(isinstance(element, dict) for element in elements):
        for known_by in ("containerPort", "name"):
            names = [element.get(known_by) for element in elements]
            if None not in names and len(set(names)) == len(names):
                return [str(name) for name in names]
        return [str(index) for index in range(len(elements))]
    words = [str(element) for element in elements]
    return [f"{word} ({words[:index].count(word) + 1})" for index, word in enumerate(words)]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a case says of the leaves that are not the same."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Name there -> name here, of objects, containers, volumes and roles; ``containers/pytorch`` for that of containers only, and
    ``failurePolicy/rules/0`` for an element that has a name here.
    """
    changed: Mapping[str, str] = field(default_factory=dict)
    """Pattern of leaves that stand here in another way -> why."""
    override: Mapping[str, str] = field(default_factory=dict)
    """Pattern of leaves for which the run needs an override -> what it lacks."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Pattern of leaves that no run can have -> why."""


def fates(theirs: Data, ours: Data, expected: Expected) -> dict[str, Fate]:
    """Leaf of the public manifest -> what became of it.

    Raises:
        AssertionError: A leaf differs and no reason is given, or a reason is given and no leaf needs it.
    """
    here, found, unused, taken = dict(leaves(ours)), dict[str, Fate](), set[str](), dict[Path, Path]()
    reasons: list[tuple[Fate, Mapping[str, str]]] = [
        ("law", LAWS), ("changed", expected.changed), ("override", expected.override), ("missing", expected.missing),
    ]  # fmt: skip
    unused.update(pattern for _, patterns in reasons[1:] for pattern in patterns)
    _same_order(theirs, ours, expected.names)
    for path, value in leaves(theirs):
        text = "/".join(path)
        stated = next(((fate, one) for fate, patterns in reasons for one in patterns if fnmatchcase(text, one)), None)
        if stated is not None:
            found[text] = stated[0]
            unused.discard(stated[1])
            continue
        kept = _found(path, value, here, expected.names)
        assert kept is not None, f"{text}: {value!r} there; {_near(path, here, expected.names)} here, and no reason is given"
        found[text], there = kept
        assert taken.setdefault(there, path) == path, f"{text} and {'/'.join(taken[there])} became one"
    assert not unused, f"no leaf needs the reason for {sorted(unused)}"
    return found


def _same_order(theirs: Data, ours: Data, names: Mapping[str, str]) -> None:
    """Words are known by themselves, so that one that is left out does not move all others; their order has to be checked."""
    here = dict(_texts(ours))
    for path, words in _texts(theirs):
        found = here.get(path, here.get(_moved(path, names), []))
        there, mine = [word for word in words if word in found], [word for word in found if word in words]
        assert there == mine, f"{'/'.join(path)} has its words in another order: {mine}"


def _texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, list[str]]]:
    """Every list of texts with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*path, str(key)))
    elif isinstance(value, list) and value and all(isinstance(inner, str) for inner in value):
        yield path, _keys(value)
    elif isinstance(value, list):
        for key, inner in zip(_keys(value), value, strict=True):
            yield from _texts(inner, (*path, key))


def _found(path: Path, value: Any, here: Mapping[Path, Any], names: Mapping[str, str]) -> tuple[Fate, Path] | None:
    """As what a leaf is here, and where."""
    if path in here and _equal(path, here[path], value):
        return "same", path
    for there in (_moved(path, names), _in_words(path, names)):
        if there in here and (_equal(path, here[there], value) or here[there] == _renamed(path, value, names)):
            return "renamed", there
    return None


def _moved(path: Path, names: Mapping[str, str]) -> Path:
    """The place of a leaf under our names, of which those with more of the way to them win."""
    ways = [["/".join(path[max(0, end - long) : end]) for long in (3, 2, 1)] for end in range(1, len(path) + 1)]
    return tuple(next((names[way] for way in tried if way in names), part) for tried, part in zip(ways, path, strict=True))


def _in_words(path: Path, names: Mapping[str, str]) -> Path:
    """The same for a word that holds names itself."""
    *way, word = _moved(path, names)
    return (*way, _with_names(word, names))


def _renamed(path: Path, value: Any, names: Mapping[str, str]) -> Any:
    """A name, or names as words of a text: ``master-0`` in ``master-0.pytorch``."""
    if not isinstance(value, str) or not names:
        return value
    if path[-1] == "name" and len(path) > 2 and (scoped := names.get(f"{path[-3]}/{value}")) is not None:
        return scoped
    return _with_names(value, names)


def _with_names(text: str, names: Mapping[str, str]) -> str:
    longest = sorted((name for name in names if "/" not in name), key=len, reverse=True)
    if not longest:
        return text
    return re.sub("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w])" for name in longest), lambda found: names[found[0]], text)


def _near(path: Path, here: Mapping[Path, Any], names: Mapping[str, str]) -> str:
    return repr(here.get(path, here.get(_moved(path, names), "nothing")))


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
