"""Reads of an object that may have any shape: what is not there, or of another type, is empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at


def mapping(owner: object, pointer: str) -> Mapping[str, Any]:
    value = at(owner, pointer)
    return value if isinstance(value, Mapping) else {}


def items(owner: object, pointer: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The mappings of a list, with their indexes."""
    value = at(owner, pointer)
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, Mapping):
            yield index, item


def texts(owner: object, pointer: str) -> list[str]:
    value = at(owner, pointer)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def text(owner: object, pointer: str, default: str = "") -> str:
    value = at(owner, pointer)
    return value if isinstance(value, str) else default


def whole(owner: object, pointer: str, default: int | None = None) -> int | None:
    """A whole number; ``default`` where there is none."""
    value = at(owner, pointer)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def condition(owner: object, kind: str) -> Mapping[str, Any]:
    """The condition of that type in an object's status."""
    return next((one for _, one in items(owner, "/status/conditions") if text(one, "/type") == kind), {})
