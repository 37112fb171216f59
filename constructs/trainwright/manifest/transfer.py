"""Moves parts of one object into another, with the answers of where they come from."""

from __future__ import annotations

from typing import Any

from trainwright.findings.locate import at, tokens
from trainwright.manifest.provenance import Provenance

Settled = tuple[dict[str, Any], Provenance]
"""A plain manifest, and where its values come from."""


def transfer(giver: Settled, pointer: str, taker: Settled, place: str) -> None:
    """Move what a pointer leads to; both objects change. Nothing happens where there is nothing.

    The last token of the pointer is a key of a mapping; mappings on the way to the place are made as needed.
    """
    parent, key = at(giver[0], pointer.rpartition("/")[0]), tokens(pointer)[-1]
    if isinstance(parent, dict) and key in parent:
        put(taker[0], place, parent.pop(key))
        _rename(giver[1], pointer, taker[1], place)


def move_items(giver: Settled, pointer: str, taker: Settled, place: str, moving: set[int]) -> None:
    """Move the items of a list whose indexes are named; the others stay, closer together."""
    items = at(giver[0], pointer) or []
    stay: list[Any] = []
    moved: list[Any] = []
    for index, item in enumerate(items):
        there, name, answers = (moved, place, taker[1]) if index in moving else (stay, pointer, giver[1])
        _rename(giver[1], f"{pointer}/{index}", answers, f"{name}/{len(there)}")
        there.append(item)
    put(giver[0], pointer, stay)
    if moved:
        put(taker[0], place, moved)
    if not stay:
        del at(giver[0], pointer.rpartition("/")[0])[tokens(pointer)[-1]]


def _rename(giver: Provenance, pointer: str, taker: Provenance, place: str) -> None:
    known = [key for key in giver if key == pointer or key.startswith(f"{pointer}/")]
    for key, answer in [(key, giver.pop(key)) for key in known]:
        taker[place + key[len(pointer) :]] = answer


def put(node: Any, place: str, value: Any) -> None:
    """Set what a pointer leads to; mappings on the way are made as needed."""
    *parents, last = tokens(place)
    for token in parents:
        node = node[int(token)] if isinstance(node, list) else node.setdefault(token, {})
    node[last] = value
