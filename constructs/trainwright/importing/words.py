"""What is said in a run's words so far, each with the place in the original that says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainwright.findings.locate import escape, tokens

Data = dict[str, Any]


@dataclass
class Words:
    """A part of a run, and where each of its keys comes from."""

    data: Data = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """Pointer in ``data`` -> pointer in the original object."""

    def say(self, pointer: str, value: Any, source: str = "") -> None:
        """Write a value at a pointer; mappings on the way are made."""
        *way, last = tokens(pointer)
        node = self.data
        for key in way:
            below = node.setdefault(key, {})
            if not isinstance(below, dict):
                below = node[key] = {}
            node = below
        node[last] = value
        if source:
            self.sources[pointer] = source

    def take(self, pointer: str, other: Words) -> None:
        """All that another says, below a pointer."""
        for there, value in leaves(other.data):
            self.say(pointer + there, value)
        self.sources |= {pointer + there: source for there, source in other.sources.items()}

    def without(self, pointer: str) -> Data:
        """A copy of the data without what is at a pointer; mappings that are empty then go too, but for ``files`` and the like
        whose being there means something."""
        shorter: Data = removed(self.data, tokens(pointer))
        return shorter


def removed(node: Any, way: list[str]) -> Any:
    """A copy without what the way leads to."""
    first, *rest = way
    if isinstance(node, list):
        place = int(first)
        return [
            removed(one, rest) if rest and number == place else one for number, one in enumerate(node) if rest or number != place
        ]
    copy = dict(node)
    if rest:
        copy[first] = removed(copy[first], rest)
        if copy[first] in ({}, []) and node[first] not in ({}, []):
            del copy[first]
    else:
        copy.pop(first, None)
    return copy


def leaves(node: Mapping[str, Any], pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no mapping with keys, with its pointer."""
    for key, value in node.items():
        here = f"{pointer}/{escape(str(key))}"
        if isinstance(value, dict) and value:
            yield from leaves(value, here)
        else:
            yield here, value
