"""Lists whose items must differ: x-kubernetes-list-type ``map`` by their keys, ``set`` as a whole (apiserver/schema/listtype)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.validate.admission import field_schema
from trainwright.validate.crd import Schema
from trainwright.validate.problem import Problem


def list_problems(value: Any, schema: Schema | None, pointer: str = "") -> Iterator[Problem]:
    """Items that a list holds twice. The value has its defaults: ``protocol: TCP`` is part of a port's key."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            below = field_schema(schema, key)
            if below is not None:
                yield from list_problems(item, below, f"{pointer}/{escape(key)}")
    elif isinstance(value, list) and schema is not None:
        yield from _twice(value, schema, pointer)
        for index, item in enumerate(value):
            yield from list_problems(item, schema.get("items"), f"{pointer}/{index}")


def _twice(items: list[Any], schema: Schema, pointer: str) -> Iterator[Problem]:
    kind, names = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys", ()))
    if kind not in ("map", "set"):
        return
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        if kind == "map" and not isinstance(item, Mapping):
            continue  # of the wrong type, which the schema says
        key = {name: item[name] for name in names if name in item} if kind == "map" else item
        earlier = first.setdefault(json.dumps(key, sort_keys=True), index)
        if earlier != index:
            yield duplicate(pointer, index, earlier, key)


def duplicate(pointer: str, index: int, earlier: int, key: Any) -> Problem:
    """The problem of an item that a list already holds."""
    shown = ", ".join(f"{name} {value}" for name, value in key.items()) if isinstance(key, Mapping) else str(key)
    message = f"{pointer}/{index} has the same {shown or 'empty key'} as {pointer}/{earlier}"
    return Problem("TW706", f"{pointer}/{index}", message[:240], "give it another one, or remove one of the two")
