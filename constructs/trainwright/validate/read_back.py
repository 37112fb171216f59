"""Whether a file says what was to be written, to every reader of it: a plain scalar has to mean the same by YAML 1.2 and by the
rules of kubectl and Argo CD.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from yaml import MappingNode, Node, ScalarNode, SequenceNode, YAMLError

from trainwright.findings.locate import escape
from trainwright.manifest.written import nodes
from trainwright.reading.scalar import ScalarError, read_scalar
from trainwright.validate.manifests import is_ambiguous


def differences(text: str, manifests: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Index of an object, and pointer to each value in it, that a reader of the text would take for another one."""
    try:
        documents = list(nodes(text))
    except YAMLError:
        yield 0, ""
        return
    for index in range(max(len(documents), len(manifests))):
        if index >= len(documents) or index >= len(manifests):
            yield min(index, len(manifests) - 1), ""
            return
        for pointer in _differences(documents[index], manifests[index], ""):
            yield index, pointer


def _differences(node: Node, value: object, pointer: str) -> Iterator[str]:
    if isinstance(node, MappingNode) and isinstance(value, Mapping):
        keys = {key.value for key, _ in node.value}
        alike = len(node.value) == len(value) and keys == value.keys()
        if not alike or not all(_same(key, key.value) for key, _ in node.value):
            yield pointer
            return
        for key, below in node.value:
            yield from _differences(below, value[key.value], f"{pointer}/{escape(key.value)}")
    elif isinstance(node, SequenceNode) and isinstance(value, list) and len(node.value) == len(value):
        for index, below in enumerate(node.value):
            yield from _differences(below, value[index], f"{pointer}/{index}")
    elif not isinstance(node, ScalarNode) or not _same(node, value):
        yield pointer


def _same(node: ScalarNode, value: object) -> bool:
    if node.style:  # quoted, or a block
        return bool(node.value == value)
    read = _read(node.value)
    return read == value and isinstance(read, bool) is isinstance(value, bool)


@lru_cache(maxsize=4096)
def _read(scalar: str) -> object:
    """A plain scalar's value, where all readers agree on it."""
    try:
        return _UNREADABLE if is_ambiguous(scalar) else read_scalar(scalar)
    except ScalarError:
        return _UNREADABLE


_UNREADABLE = object()
