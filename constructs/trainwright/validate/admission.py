"""What the API server makes of a custom resource before it validates it: unknown fields go, nulls go, defaults come.

The three passes are those of apiextensions-apiserver (pkg/apiserver/schema/pruning and .../defaulting). Unknown fields are what
``fieldValidation=Strict`` reports; validation and rules see the object without them and with its defaults.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.objects.problem import Problem, unknown_field
from trainwright.validate.crd import Schema

TYPE_META = frozenset(("apiVersion", "kind", "metadata"))
"""Fields of every object, which are not checked by the schema of its kind."""
_RESOURCE = "x-kubernetes-embedded-resource"


def field_schema(schema: Schema | None, key: str) -> Schema | None:
    """The schema of a field or of a map's values; None where there is none."""
    if schema is None:
        return None
    if key in schema.get("properties", {}):
        found: Schema = schema["properties"][key]
        return found
    extra = schema.get("additionalProperties")
    return extra if isinstance(extra, Mapping) else None


def knows(schema: Schema | None, key: str) -> bool:
    """Whether a mapping may have a key, as far as pruning goes."""
    if schema is None:
        return False
    return key in schema.get("properties", {}) or schema.get("additionalProperties") not in (None, False)


def unknown_fields(resource: Any, schema: Schema | None) -> Iterator[Problem]:
    """Fields that the API server would drop, and refuses under strict validation."""
    return _unknown(resource, _of_resource(schema), "")


def admitted(resource: Any, schema: Schema | None) -> Any:
    """A copy with the schema's defaults, and without unknown fields and nulls that the schema does not allow."""
    return _admitted(resource, _of_resource(schema))


def _of_resource(schema: Schema | None) -> Schema:
    """The schema of a whole object: a resource inside another one says itself that it has a kind and metadata."""
    return {**(schema or {}), _RESOURCE: True}


def _unknown(value: Any, schema: Schema | None, pointer: str) -> Iterator[Problem]:
    preserving = schema is not None and bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if isinstance(value, Mapping):
        resource = schema is not None and bool(schema.get(_RESOURCE))
        for key, item in value.items():
            below = f"{pointer}/{escape(key)}"
            if resource and key in TYPE_META:
                continue
            if knows(schema, key):
                yield from _unknown(item, field_schema(schema, key), below)
            elif not preserving:
                yield unknown_field(pointer, key, [name for name in (schema or {}).get("properties", {}) if name not in value])
    elif isinstance(value, list) and not (preserving and not (schema or {}).get("items")):
        items = (schema or {}).get("items")
        for index, item in enumerate(value):
            yield from _unknown(item, items, f"{pointer}/{index}")


def _admitted(value: Any, schema: Schema | None) -> Any:
    preserving = schema is not None and bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if isinstance(value, Mapping):
        resource = schema is not None and bool(schema.get(_RESOURCE))
        made: dict[str, Any] = {}
        for key, item in value.items():
            if resource and key in TYPE_META:
                made[key] = copy.deepcopy(item)
            elif knows(schema, key):
                below = field_schema(schema, key)
                if item is not None or below is None or below.get("nullable"):
                    made[key] = _admitted(item, below)
                elif "default" in below:
                    made[key] = _admitted(below["default"], below)
            elif preserving:
                made[key] = copy.deepcopy(item)
        return made | _defaults(made, schema, resource)
    if isinstance(value, list):
        items = (schema or {}).get("items")
        if items is None and preserving:
            return copy.deepcopy(value)
        return [_admitted(_item(item, items), items) for item in value]
    return value


def _defaults(made: Mapping[str, Any], schema: Schema | None, resource: bool) -> dict[str, Any]:
    properties = (schema or {}).get("properties", {})
    return {
        key: _admitted(below["default"], below)
        for key, below in properties.items()
        if key not in made and below.get("default") is not None and not (resource and key in TYPE_META)
    }


def _item(item: Any, items: Schema | None) -> Any:
    if item is None and items is not None and not items.get("nullable"):
        return items.get("default")
    return item
