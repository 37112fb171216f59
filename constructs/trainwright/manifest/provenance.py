"""Provenance: manifests are written with reasons in them, and one pass takes the two apart.

Parts of an object can move into another, with their reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from trainwright.findings.locate import at, escape, tokens

Tree = dict[str, Any]
"""A manifest, or a part of one, whose leaves may be :class:`Why`."""


class Why(NamedTuple):
    """A value (a leaf, or a whole branch) with where it comes from and the reason for it."""

    value: Any
    source: str
    """``run:/pointer``, ``cluster:/pointer`` or ``trainwright``."""
    reason: str


class Answer(NamedTuple):
    """What ``explain`` says of a line."""

    source: str
    reason: str


Provenance = dict[str, Answer]
"""JSON pointer into one object -> where its value comes from."""


_LEAVES = frozenset({str, int, bool, float, type(None)})


def split(tree: Any) -> tuple[Any, Provenance]:
    """Plain data, and the pointer of each :class:`Why` that stood in it."""
    answers: Provenance = {}

    def walk(node: Any, pointer: str) -> Any:
        if isinstance(node, Why):
            answers[pointer] = Answer(node.source, node.reason)
            return walk(node.value, pointer)
        # most nodes are plain leaves, which need no call and no pointer of their own
        if isinstance(node, dict):
            return {
                key: value if type(value) in _LEAVES else walk(value, f"{pointer}/{escape(key)}") for key, value in node.items()
            }
        if isinstance(node, list | tuple):
            return [value if type(value) in _LEAVES else walk(value, f"{pointer}/{index}") for index, value in enumerate(node)]
        return node

    return walk(tree, ""), answers


def nearest(provenance: Provenance, pointer: str) -> tuple[str, Answer | None]:
    """The pointer itself or its nearest ancestor that has an answer, with the answer; None where there is none."""
    while pointer not in provenance:
        if not pointer:
            return "", None
        pointer = pointer.rpartition("/")[0]
    return pointer, provenance[pointer]


def answer_for(provenance: Provenance, reasons: Mapping[str, str], pointer: str) -> tuple[str, Answer]:
    """The nearest place at a pointer or above it of which something is known, and what: of a constant, by the ``reasons`` of its
    kind of object (:data:`trainwright.manifest.kinds.Reasons`).
    """
    place, answer = nearest(provenance, pointer)
    constant = pointer
    while constant not in reasons and constant:
        constant = constant.rpartition("/")[0]
    if answer is None or (constant in reasons and constant.count("/") > place.count("/")):
        return constant, Answer("trainwright", reasons.get(constant, "part of the object"))
    return place, answer


def origin(provenance: Provenance, pointer: str) -> tuple[str, str]:
    """The source of a value, and its place below what the source names; the source is ``trainwright`` where nobody states it.

    A branch that was passed through has the same keys below it in the user's file.
    """
    place, answer = nearest(provenance, pointer)
    return answer.source if answer else "trainwright", pointer.removeprefix(place)


Traced = tuple[dict[str, Any], Provenance]
"""A plain manifest, and where its values come from."""


def transfer(origin: Traced, pointer: str, destination: Traced, new: str) -> None:
    """Move what a pointer leads to under a new pointer into another object; both change. Nothing happens where there is nothing.

    The last token of the pointer is a key of a mapping; mappings on the way to the new one are made as needed.
    """
    parent, key = at(origin[0], pointer.rpartition("/")[0]), tokens(pointer)[-1]
    if isinstance(parent, dict) and key in parent:
        put(destination[0], new, parent.pop(key))
        _rename(origin[1], pointer, destination[1], new)


def repeat(origin: Traced, pointer: str, destination: Traced, new: str) -> None:
    """Say a value, and where it comes from, under a new pointer of another object too."""
    put(destination[0], new, at(origin[0], pointer))
    known = {key: answer for key, answer in origin[1].items() if key == pointer or key.startswith(f"{pointer}/")}
    destination[1].update((new + key[len(pointer) :], answer) for key, answer in known.items())


def move_items(origin: Traced, pointer: str, destination: Traced, new: str, moving: set[int]) -> None:
    """Move the items of a list whose indexes are named; the others stay, closer together."""
    items = at(origin[0], pointer) or []
    stay: list[Any] = []
    moved: list[Any] = []
    for index, item in enumerate(items):
        there, name, answers = (moved, new, destination[1]) if index in moving else (stay, pointer, origin[1])
        _rename(origin[1], f"{pointer}/{index}", answers, f"{name}/{len(there)}")
        there.append(item)
    put(origin[0], pointer, stay)
    if moved:
        put(destination[0], new, moved)
    if not stay:
        del at(origin[0], pointer.rpartition("/")[0])[tokens(pointer)[-1]]


def _rename(origin: Provenance, pointer: str, destination: Provenance, new: str) -> None:
    known = [key for key in origin if key == pointer or key.startswith(f"{pointer}/")]
    for key, answer in [(key, origin.pop(key)) for key in known]:
        destination[new + key[len(pointer) :]] = answer


def put(node: Any, pointer: str, value: Any) -> None:
    """Set what a pointer leads to; mappings on the way are made as needed."""
    *parents, last = tokens(pointer)
    for token in parents:
        node = node[int(token)] if isinstance(node, list) else node.setdefault(token, {})
    node[last] = value
