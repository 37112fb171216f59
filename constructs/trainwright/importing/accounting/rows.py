"""The lists of ``rows.yaml``: what is never carried, what is said in another way, and what ours adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from trainwright.findings.locate import at
from trainwright.importing.accounting.pairing import Leaf
from trainwright.reading.rows import read_rows


def row_of(section: str, text: str, value: Any = None, *, asked: bool = False) -> Mapping[str, Any] | None:
    """The first row of a list that has a place with that value. ``asked`` is what the run states there itself."""
    listed: Sequence[Mapping[str, Any]] = rows()[section]
    held = (row for row in listed if _names(row, text) and row.get("value", value) == value)
    return next((row for row in held if asked or not row.get("asked")), None)


def _names(row: Mapping[str, Any], text: str) -> bool:
    below = "".join(text.partition("/")[1:])
    return any(fnmatchcase(below if pattern[0] == "/" else text, pattern) for pattern in row["leaves"])


def _has(mapping: Mapping[str, Any], items: Mapping[str, Any]) -> bool:
    return all(mapping.get(key) == value for key, value in items.items())


def otherwise(text: str, tree: Mapping[str, Any], leaf: Leaf) -> str | None:
    """Why ours says a leaf in another way, or not at all, where that is known of its place."""
    around = [at(tree, leaf.pointer[:end]) for end, mark in enumerate(leaf.pointer) if mark == "/"]
    for row in rows()["otherwise"]:
        within = row.get("within")
        if (
            _names(row, text)
            and row.get("value", leaf.value) == leaf.value
            and (not within or any(isinstance(one, dict) and _has(one, within) for one in around))
        ):
            return str(row["why"])
    return None


@cache
def rows() -> Mapping[str, Any]:
    """Name of a list -> its rows."""
    lists: Mapping[str, Any] = read_rows(Path(__file__).with_name("rows.yaml"))
    return lists
