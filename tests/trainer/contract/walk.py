"""Every field of the specification, and every value of those that have a list of them, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel


def lines(model: type[BaseModel], newer: frozenset[str] = frozenset(), prefix: str = "") -> Iterator[str]:
    """``world.nodes`` for a field, ``work.engine=ddp`` for a value. What hangs below a line of ``newer`` is passed over."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        yield path
        if path not in newer:
            yield from _values(path, field.annotation, newer)


def _values(path: str, kind: Any, newer: frozenset[str]) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from (f"{path}={value}" for value in get_args(kind))
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        tags = set(_tags(path, kind)) & newer
        yield from tags or lines(kind, newer, f"{path}.")
    else:
        for part in get_args(kind):
            yield from _values(path, part, newer)


def _tags(path: str, model: type[BaseModel]) -> Iterator[str]:
    """What tells this variant of a union from the others: a field with a single value."""
    for name, field in model.model_fields.items():
        if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1:
            yield f"{path}.{name}={get_args(field.annotation)[0]}"
