"""A quick look at whether a value fits a schema of Kubernetes: nearly all do, and jsonschema needs milliseconds to say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_READ = frozenset(
    (
        "$ref", "type", "enum", "oneOf", "pattern", "minimum", "maximum", "items", "minItems", "properties", "required",
        "additionalProperties",
    )
)  # fmt: skip
_SAYS_NOTHING = frozenset(
    (
        "$schema", "$id", "$defs", "description", "default", "format", "x-kubernetes-group-version-kind",
        "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-patch-merge-key",
        "x-kubernetes-patch-strategy", "x-kubernetes-unions",
    )
)  # fmt: skip
KEYWORDS = _READ | _SAYS_NOTHING
"""A schema with any other is a doubt."""

_TYPES = {
    dict: ("object",),
    list: ("array",),
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    type(None): ("null",),
}
"""Floats are left to jsonschema, which takes 2.0 for an integer."""


def fits(value: Any, schema: Schema, definitions: Mapping[str, Schema]) -> bool:
    """True where a value fits for sure; False where it does not, and wherever there is a doubt: whoever has words must look then.

    Args:
        value: plain data.
        schema: a JSON schema, draft 2020-12, with the few keywords that those of Kubernetes' own kinds have.
        definitions: the last part of a ``$ref`` -> what it refers to.
    """
    if not KEYWORDS.issuperset(schema):
        return False
    if "$ref" in schema and not fits(value, definitions[schema["$ref"].rpartition("/")[2]], definitions):
        return False
    if "type" in schema and not _has_type(value, schema["type"]):
        return False
    if "enum" in schema and not (isinstance(value, str | None) and value in schema["enum"]):
        return False
    if "oneOf" in schema and not _fits_one(value, schema["oneOf"]):
        return False
    if isinstance(value, dict):
        return _mapping_fits(value, schema, definitions)
    if isinstance(value, list):
        items = schema.get("items", {})
        return len(value) >= schema.get("minItems", 0) and all(fits(item, items, definitions) for item in value)
    if isinstance(value, str):
        return "pattern" not in schema or re.search(schema["pattern"], value) is not None
    if isinstance(value, int):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return value is None


def _has_type(value: Any, wanted: str | list[str]) -> bool:
    has = _TYPES.get(type(value), ())
    return wanted in has if isinstance(wanted, str) else any(name in has for name in wanted)


def _fits_one(value: Any, forms: list[Schema]) -> bool:
    """Exactly one of them; forms that say more than a type are a doubt."""
    return all(form.keys() == {"type"} for form in forms) and sum(_has_type(value, form["type"]) for form in forms) == 1


def _mapping_fits(value: Mapping[str, Any], schema: Schema, definitions: Mapping[str, Schema]) -> bool:
    if not all(key in value for key in schema.get("required", ())):
        return False
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key, item in value.items():
        below = properties.get(key, extra)
        if below is False or (below is not True and not fits(item, below, definitions)):
            return False
    return True
