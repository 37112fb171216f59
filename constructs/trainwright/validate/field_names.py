"""The names of custom resources' fields, for where there is no CRD: which there are in the releases of ``pins.toml``.

``tools/field_names.py`` writes the table, and says how to read it. Names are all that it has: no types, no required fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.validate.crd import Schema

TABLE = Path(__file__).with_name("field_names.json")
_MARKS: Mapping[str, str] = {"?": "x-kubernetes-preserve-unknown-fields", "&": "x-kubernetes-embedded-resource"}
_BELOW: Mapping[str, str] = {"*": "additionalProperties", "[]": "items"}


class Named(NamedTuple):
    """The fields of a kind by name."""

    release: str
    """The repository and version that the names are from."""
    schema: Schema
    """A structural schema as far as names go."""


@cache
def named(api_version: str, kind: str) -> Named | None:
    """The fields of a kind; None for a kind, or a version of it, that the table does not have."""
    for release, numbers in _table()["kinds"].items():
        if (number := numbers.get(f"{api_version} {kind}")) is not None:
            return Named(release, _schema(number))
    return None


def known_kinds() -> list[tuple[str, str]]:
    """The apiVersion and kind of each, the newest last."""
    names = (name.split(" ") for numbers in _table()["kinds"].values() for name in numbers)
    return [(version, kind) for version, kind in names]


@cache
def _table() -> Any:
    return json.loads(TABLE.read_bytes())


@cache
def _schema(number: int) -> Schema:
    schema: dict[str, Any] = {}
    for word in _table()["fields"][number].split():
        name, _, below = word.partition("=")
        if name in _MARKS:
            schema[_MARKS[name]] = True
            continue
        under = _schema(int(below)) if below else {}
        if name in _BELOW:
            schema[_BELOW[name]] = under
        else:
            schema.setdefault("properties", {})[name] = under
    return schema
