"""Values against a structural schema, as kube-openapi does it after pruning and defaulting (pkg/validation/validate)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.objects.cel import CannotEvaluateError, matcher
from trainwright.objects.formats import FORMATS, INTEGERS, UNCHECKED, normal
from trainwright.objects.problem import Problem, duplicate, shown, unknown_choice, written
from trainwright.reading.shape import WORDS
from trainwright.units import literal
from trainwright.validate.admission import field_schema
from trainwright.validate.crd import Schema


def structure_problems(value: Any, schema: Schema, pointer: str = "") -> Iterator[Problem]:
    """Everything in a value that its schema does not allow, but for unknown fields and for items that a list holds twice."""
    if value is None and schema.get("nullable"):
        yield from _enum(value, schema, pointer)
        return
    if wrong := _wrong_type(value, schema):
        yield Problem("TW705", pointer, f"{shown(pointer)} must be {wrong}, not {written(value)}", _type_fix(value, wrong))
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
    """What the value should be instead; empty where its type is right."""
    both = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else []
    wanted = both or ([schema["type"]] if schema.get("type") else [])
    if not wanted or any(_is(value, name) for name in wanted):
        return ""
    return " or ".join(WORDS.get(name, str(name)) for name in wanted)


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
    yield unknown_choice(pointer, value, [literal(item) if item != "" else '""' for item in allowed])


def _text(value: str, schema: Schema, pointer: str) -> Iterator[Problem]:
    length, place = len(value), shown(pointer)
    if length > (most := schema.get("maxLength", length)):
        message = f"{place} has {length} characters, and at most {most} are allowed"
        yield Problem("TW705", pointer, message, "write a shorter text")
    if length < (least := schema.get("minLength", 0)):
        size = "is empty" if not value else f"has {length} characters"
        yield Problem("TW705", pointer, f"{place} {size}, and at least {least} are needed", "write a longer text")
    if pattern := schema.get("pattern"):
        yield from _pattern(value, pattern, pointer)
    if name := schema.get("format"):
        yield from _format(value, str(name), pointer)


def _pattern(value: str, pattern: str, pointer: str) -> Iterator[Problem]:
    try:
        if not matcher(pattern)(value):
            fix = f"write a value that matches {pattern}"
            yield Problem("TW705", pointer, f"{shown(pointer)} cannot be {written(value)}: it does not match the pattern", fix)
    except CannotEvaluateError as error:
        yield Problem(
            "TW708", pointer, f"the pattern of {shown(pointer)} was not checked: {error}", "report it to the CRD's project"
        )


def _format(value: str, name: str, pointer: str) -> Iterator[Problem]:
    if normal(name) in UNCHECKED:
        message = f"{shown(pointer)} was not checked: format {name} is not known here"
        yield Problem("TW708", pointer, message, "check the value by hand")
    check = FORMATS.get(normal(name))  # formats that the API server does not know it ignores
    if check is not None and not check(value):
        message = f"{shown(pointer)} must have the format {name}, and {written(value)} does not have it"
        yield Problem("TW705", pointer, message, f"write a value of the format {name}")


def _number(value: float, schema: Schema, pointer: str) -> Iterator[Problem]:
    low, high = INTEGERS.get(str(schema.get("format")), (None, None)) if schema.get("type") == "integer" else (None, None)
    least, most = schema.get("minimum", low), schema.get("maximum", high)
    above, below = schema.get("exclusiveMinimum") is True, schema.get("exclusiveMaximum") is True
    if least is not None and (value < least or (value == least and above)):
        bound = f"above {least}" if above else f"at least {least}"
        yield Problem("TW705", pointer, f"{shown(pointer)} is {value}, and must be {bound}", f"write a number that is {bound}")
    if most is not None and (value > most or (value == most and below)):
        bound = f"below {most}" if below else f"at most {most}"
        yield Problem("TW705", pointer, f"{shown(pointer)} is {value}, and must be {bound}", f"write a number that is {bound}")
    step = schema.get("multipleOf")
    if step and not float(value / step).is_integer():
        message = f"{shown(pointer)} is {value}, which is not a multiple of {step}"
        yield Problem("TW705", pointer, message, f"write a multiple of {step}")


def _list(value: list[Any], schema: Schema, pointer: str) -> Iterator[Problem]:
    yield from _size(len(value), schema, "Items", "items", pointer)
    if items := schema.get("items"):
        for index, item in enumerate(value):
            yield from structure_problems(item, items, f"{pointer}/{index}")


def _mapping(value: Mapping[str, Any], schema: Schema, pointer: str) -> Iterator[Problem]:
    yield from _size(len(value), schema, "Properties", "keys", pointer)
    for key in schema.get("required", ()):
        if key not in value:
            yield Problem("TW704", f"{pointer}/{escape(key)}", f"{shown(pointer)} has no `{key}`", f"add `{key}:`")
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
    for key, item in value.items():
        below = properties.get(key, extra)
        if isinstance(below, Mapping):
            yield from structure_problems(item, below, f"{pointer}/{escape(key)}")


def _size(size: int, schema: Schema, suffix: str, unit: str, pointer: str) -> Iterator[Problem]:
    most, least = schema.get(f"max{suffix}"), schema.get(f"min{suffix}")
    if most is not None and size > most:
        message = f"{shown(pointer)} has {size} {unit}, and at most {most} are allowed"
        yield Problem("TW705", pointer, message, f"write at most {most}")
    if least is not None and size < least:
        message = f"{shown(pointer)} has {size} {unit}, and at least {least} are needed"
        yield Problem("TW705", pointer, message, f"write at least {least}")


def _combined(value: Any, schema: Schema, pointer: str) -> Iterator[Problem]:
    """allOf, anyOf, oneOf and not: they only restrict further, and hold no fields of their own."""
    for form in schema.get("allOf", ()):
        yield from structure_problems(value, form, pointer)
    for keyword, count in (("anyOf", "at least one"), ("oneOf", "exactly one")):
        forms = schema.get(keyword) or ()
        fitting = sum(_fits(value, form, pointer) for form in forms)
        if forms and (not fitting or (keyword == "oneOf" and fitting != 1)):
            needs = [f"`{', '.join(form['required'])}`" for form in forms if form.get("required")]
            fix = f"write {' or '.join(needs)}" if needs else "write a value of one of its forms"
            message = f"{shown(pointer)} fits {fitting or 'none'} of its {len(forms)} forms, and must fit {count}"
            yield Problem("TW705", pointer, message, fix)
    if "not" in schema and _fits(value, schema["not"], pointer):
        yield Problem("TW705", pointer, f"{shown(pointer)} is what its schema rules out", "write something else, or remove it")


def _fits(value: Any, schema: Schema, pointer: str) -> bool:
    return not any(problem.code != "TW708" for problem in structure_problems(value, schema, pointer))


def list_problems(value: Any, schema: Schema | None, pointer: str = "") -> Iterator[Problem]:
    """Items that a list holds twice. The value has its defaults: ``protocol: TCP`` is part of a port's key."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            below = field_schema(schema, key)
            if below is not None:
                yield from list_problems(item, below, f"{pointer}/{escape(key)}")
    elif isinstance(value, list) and schema is not None:
        yield from _duplicates(value, schema, pointer)
        for index, item in enumerate(value):
            yield from list_problems(item, schema.get("items"), f"{pointer}/{index}")


def _duplicates(items: list[Any], schema: Schema, pointer: str) -> Iterator[Problem]:
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
