"""Where a value of the run or of the cluster profile is in the user's files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from trainwright.findings import Where

Positions = Mapping[str, tuple[int, int]]
"""JSON pointer -> line and column, from 1."""

NOWHERE: Positions = {}


class Defaulted(NamedTuple):
    """What a run has from its project's defaults."""

    file: str | None = None
    """The file of the defaults, as shown to people; None where there is none."""
    values: Mapping[str, Any] = {}
    """As the run's own file would hold it."""
    positions: Positions = NOWHERE
    """Pointer in the run -> where the defaults say it. What the run says itself is not in it."""


NO_DEFAULTS = Defaulted()


class Locator(NamedTuple):
    """Turns pointers into places; without files (a run built in Python) a place is the pointer alone."""

    run_file: str | None = None
    run_positions: Positions = NOWHERE
    cluster_file: str | None = None
    cluster_positions: Positions = NOWHERE
    defaulted: Defaulted = NO_DEFAULTS

    def run(self, pointer: str = "") -> Where:
        """In the run's file, or in that of the defaults where the run has it from there."""
        near = pointer
        while near and near not in self.run_positions and near not in self.defaulted.positions:
            near = near.rpartition("/")[0]
        if near not in self.run_positions and near in self.defaulted.positions:
            return _place(self.defaulted.file, self.defaulted.positions, pointer)
        return _place(self.run_file, self.run_positions, pointer)

    def cluster(self, pointer: str = "") -> Where:
        return _place(self.cluster_file, self.cluster_positions, pointer)

    def at(self, source: str) -> Where:
        """The place of ``run:/pointer`` or ``cluster:/pointer``, or of the nearest thing above it that a file states."""
        file, _, pointer = source.partition(":")
        return self.run(pointer) if file == "run" else self.cluster(pointer)

    def source(self, source: str, below: str = "") -> Where | None:
        """The place of a source such as ``run:/batch/micro``, or of what is below it; None for a value that no file states, a
        default among them.
        """
        kind, _, pointer = source.partition(":")
        if kind not in ("run", "cluster"):
            return None
        positions = self.run_positions if kind == "run" else self.cluster_positions
        if positions and pointer not in positions and not (kind == "run" and pointer in self.defaulted.positions):
            return None
        return self.at(source + below)


def _place(file: str | None, positions: Positions, pointer: str) -> Where:
    near = pointer
    while near and near not in positions:
        near = near.rpartition("/")[0]
    line, column = positions.get(near, (None, None))
    return Where(file=file, line=line, column=column, pointer=pointer)


def escape(key: str) -> str:
    """One key as a token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1") if "/" in key or "~" in key else key


def pointer_to(keys: Iterable[str | int]) -> str:
    """The JSON pointer that leads from key to key."""
    return "".join(f"/{escape(str(key))}" for key in keys)


def tokens(pointer: str) -> list[str]:
    """The keys of a JSON pointer; none for the empty one."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def dotted(keys: Sequence[str | int]) -> str:
    """A path as people write it: ``workload.model.hidden_size``, ``mounts["/data"].claim``, ``waivers[0]``.

    A number, also one of a pointer, is a place in a list.
    """
    text = ""
    for key in keys:
        if isinstance(key, int) or key.isdecimal():
            text += f"[{key}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", key):
            text += f".{key}" if text else key
        else:
            text += f'["{key[:60]}"]'
    return text or "the document"


def at(node: Any, pointer: str) -> Any:
    """The value that a pointer leads to; None where there is none."""
    for token in tokens(pointer):
        if isinstance(node, list):
            node = node[int(token)] if token.isdigit() and int(token) < len(node) else None
        else:
            node = node.get(token) if isinstance(node, dict) else None
    return node
