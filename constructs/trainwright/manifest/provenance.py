"""Provenance: manifests are written with reasons in them, and one pass takes the two apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainwright.findings.locate import escape

Tree = dict[str, Any]
"""A manifest, or a part of one, whose leaves may be :class:`Why`."""


@dataclass(frozen=True, slots=True)
class Why:
    """A value (a leaf, or a whole branch) with where it comes from and the reason for it."""

    value: Any
    source: str
    """``run:/pointer``, ``cluster:/pointer`` or ``trainwright``."""
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What ``explain`` says of a line."""

    source: str
    reason: str


Provenance = dict[str, Answer]
"""JSON pointer into one object -> where its value comes from."""


def split(tree: Any) -> tuple[Any, Provenance]:
    """Plain data, and the pointer of each :class:`Why` that stood in it."""
    answers: Provenance = {}

    def walk(node: Any, pointer: str) -> Any:
        if isinstance(node, Why):
            answers[pointer] = Answer(node.source, node.reason)
            return walk(node.value, pointer)
        if isinstance(node, dict):
            return {key: walk(value, f"{pointer}/{escape(key)}") for key, value in node.items()}
        if isinstance(node, list | tuple):
            return [walk(value, f"{pointer}/{index}") for index, value in enumerate(node)]
        return node

    return walk(tree, ""), answers


def plain(tree: Any) -> tuple[Any, Provenance]:
    """Plain data alone, with nothing to say about it: a third of the work, for what is only hashed."""

    def walk(node: Any) -> Any:
        if type(node) is Why:
            node = node.value
        if type(node) is dict:
            return {key: walk(value) for key, value in node.items()}
        if type(node) in (list, tuple):
            return [walk(value) for value in node]
        return walk(node) if type(node) is Why else node

    return walk(tree), {}


def nearest(provenance: Provenance, pointer: str) -> tuple[str, Answer | None]:
    """The pointer itself or its nearest ancestor that has an answer, with the answer; None where there is none."""
    while pointer not in provenance:
        if not pointer:
            return "", None
        pointer = pointer.rpartition("/")[0]
    return pointer, provenance[pointer]
