"""Values against a structural schema, as kube-openapi does it after pruning and defaulting (pkg/validation/validate)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.reading.shape import closest, literal
from trainwright.validate.admission import field_schema
from trainwright.validate.cel import CannotEvaluateError, matcher
from trainwright.validate.crd import Schema
from trainwright.validate.formats import FORMATS, INTEGERS, UNCHECKED, normal
from trainwright.validate.problem import Problem

_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def structure_problems(value: Any, schema: Schema, pointer: str = "") -> Iterator[Problem]:
    """Everything in a value that its schema does not allow; unknown fields are not looked for here."""
    if value is None and schema.get("nullable"):
        yield from _enum(value, schema, pointer)
        return
    if wrong := _wrong_type(value, schema):
        yield Problem("TW705", pointer, f"{_shown(pointer)} must be {wrong}, not {_written(value)}", _type_fix(value, wrong))
        return
    if value is None:
        return
    yield from _enum(value, schema, pointer)
    if isinstance(value, str):
        yield from _text(value, schema, pointer)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(value, schema, pointer)
    elif isinstance(value, list):
        yield from _list(value, schema, pointer)
    elif isinstance(value, Mapping):
        yield from _mapping(value, schema, pointer)
    yield from _combined(value, schema, pointer)


def _wrong_type(value: Any, schema: Schema) -> str:
    """What the value should be instead, or nothing."""
    both = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else []
    wanted = both or ([schema["type"]] if schema.get("type") else [])
    if not wanted or any(_is(value, name) for name in wanted):
        return ""
    return " or ".join(_WORDS.get(name, str(name)) for name in wanted)


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, int):
        return name in ("integer", "number")
    if isinstance(value, float):  # 2.0 is a whole number to the API server too
        return name == "number" or (name == "integer" and value.is_integer())
    return (
        (isinstance(value, str) and name == "string")
        or (isinstance(value, list) and name == "array")
        or (isinstance(value, Mapping) and name == "object")
    )


def _type_fix(value: Any, wrong: str) -> str:
    if wrong == "text" and isinstance(value, bool | int | float):
        return f'write "{literal(value)}" in quotes'
    if "number" in wrong and isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return f"write {wrong}"
        return f"write {value} without quotes"
    if wrong == "true or false" and isinstance(value, str) and value.lower() in ("true", "false"):
        return f"write {value.lower()} without quotes"
    return f"write {wrong}"


def _enum(value: Any, schema: Schema, pointer: str) -> Iterator[Problem]:
    allowed = schema.get("enum")
    if allowed is None or any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in allowed):
        return
    known = [literal(item) if item != "" else '""' for item in allowed]
    near = closest(value, known) if isinstance(value, str) else None
    fix = f"did you mean {near}? Allowed: {', '.join(known)}" if near else f"write one of {', '.join(known)}"
    yield Problem("TW705", pointer, f"{_shown(pointer)} cannot be {_written(value)}", fix)


def _text(value: str, schema: Schema, pointer: str) -> Iterator[Problem]:
    length, shown = len(value), _shown(pointer)
    if length > (most := schema.get("maxLength", length)):
        yield Problem("TW705", pointer, f"{shown} has {length} characters, and {most} are allowed", "write a shorter text")
    if length < (least := schema.get("minLength", 0)):
        size = "is empty" if not value else f"has {length} characters"
        yield Problem("TW705", pointer, f"{shown} {size}, and at least {least} are needed", "write a longer text")
    if pattern := schema.get("pattern"):
        yield from _pattern(value, pattern, pointer)
    if name := schema.get("format"):
        yield from _format(value, str(name), pointer)


def _pattern(value: str, pattern: str, pointer: str) -> Iterator[Problem]:
    try:
        if not matcher(pattern)(value):
            fix = f"write a value that matches {pattern}"
            yield Problem("TW705", pointer, f"{_shown(pointer)} cannot be {_written(value)}: it has another form", fix)
    except CannotEvaluateError as error:
        yield Problem(
            "TW708", pointer, f"the pattern of {_shown(pointer)} was not checked: {error}", "report it to the CRD's project"
        )


def _format(value: str, name: str, pointer: str) -> Iterator[Problem]:
    if normal(name) in UNCHECKED:
        message = f"{_shown(pointer)} was not checked: format {name} is not known here"
        yield Problem("TW708", pointer, message, "check the value by hand")
    check = FORMATS.get(normal(name))  # formats that the API server does not know it ignores
    if check is not None and not check(value):
        yield Problem("TW705", pointer, f"{_shown(pointer)} must be a {name}, not {_written(value)}", f"write a {name}")


def _number(value: float, schema: Schema, pointer: str) -> Iterator[Problem]:
    shown = _shown(pointer)
    low, high = INTEGERS.get(str(schema.get("format")), (None, None)) if schema.get("type") == "integer" else (None, None)
    least, most = schema.get("minimum", low), schema.get("maximum", high)
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum") is True)):
        yield Problem("TW705", pointer, f"{shown} is {value}, and {least} is the least", f"write {least} or more")
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum") is True)):
        yield Problem("TW705", pointer, f"{shown} is {value}, and {most} is the most", f"write {most} or less")
    step = schema.get("multipleOf")
    if step and not float(value / step).is_integer():
        yield Problem("TW705", pointer, f"{shown} is {value}, no multiple of {step}", f"write a multiple of {step}")


def _list(value: list[Any], schema: Schema, pointer: str) -> Iterator[Problem]:
    yield from _size(len(value), schema, "Items", "items", pointer)
    if items := schema.get("items"):
        for index, item in enumerate(value):
            yield from structure_problems(item, items, f"{pointer}/{index}")


def _mapping(value: Mapping[str, Any], schema: Schema, pointer: str) -> Iterator[Problem]:
    yield from _size(len(value), schema, "Properties", "keys", pointer)
    for key in schema.get("required", ()):
        if key not in value:
            yield Problem("TW704", f"{pointer}/{escape(key)}", f"{_shown(pointer)} has no `{key}`", f"add `{key}:`")
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
    for key, item in value.items():
        below = properties.get(key, extra)
        if isinstance(below, Mapping):
            yield from structure_problems(item, below, f"{pointer}/{escape(key)}")


def _size(size: int, schema: Schema, suffix: str, unit: str, pointer: str) -> Iterator[Problem]:
    most, least = schema.get(f"max{suffix}"), schema.get(f"min{suffix}")
    if most is not None and size > most:
        yield Problem("TW705", pointer, f"{_shown(pointer)} has {size} {unit}, and {most} are allowed", f"write at most {most}")
    if least is not None and size < least:
        yield Problem("TW705", pointer, f"{_shown(pointer)} has {size} {unit}, and {least} are needed", f"write at least {least}")


def _combined(value: Any, schema: Schema, pointer: str) -> Iterator[Problem]:
    """allOf, anyOf, oneOf and not: they only restrict further, and hold no fields of their own."""
    for part in schema.get("allOf", ()):
        yield from structure_problems(value, part, pointer)
    for word, count in (("anyOf", "none"), ("oneOf", "not exactly one")):
        parts = schema.get(word)
        fitting = sum(_fits(value, part, pointer) for part in parts) if parts else 1
        if not fitting or (word == "oneOf" and fitting != 1):
            needs = [f"`{', '.join(part['required'])}`" for part in parts or () if part.get("required")]
            fix = f"write {' or '.join(needs)}" if needs else "write a value of one of its forms"
            yield Problem(
                "TW705", pointer, f"{_shown(pointer)} fits {count} of the {len(parts or ())} forms that it can have", fix
            )
    if "not" in schema and _fits(value, schema["not"], pointer):
        yield Problem("TW705", pointer, f"{_shown(pointer)} is what its schema rules out", "write something else, or remove it")


def _fits(value: Any, schema: Schema, pointer: str) -> bool:
    return not any(problem.code != "TW708" for problem in structure_problems(value, schema, pointer))


def _shown(pointer: str) -> str:
    return pointer or "the object"


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = f'"{value}"' if isinstance(value, str) else literal(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


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
