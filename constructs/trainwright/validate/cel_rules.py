"""The x-kubernetes-validations of a CRD, evaluated on an object to be created (apiserver/schema/cel/validation.go)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.objects.cel import CRD_RULES, BreaksError, CannotEvaluateError, replace_identifier, without_texts
from trainwright.objects.problem import Problem, shown
from trainwright.validate.admission import field_schema
from trainwright.validate.crd import Schema

RESERVED = re.compile(
    r"true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|while"
)
"""Names that CEL keeps for itself."""

_TIMES = frozenset(("date-time", "date", "duration"))
"""Formats that the API server passes to CEL as times, which the library accepts only as variables of their own."""


def rule_problems(value: Any, schema: Schema | None, pointer: str = "") -> Iterator[Problem]:
    """Rules that a value breaks, and rules that could not be evaluated. The value is valid in structure, and has its defaults."""
    if schema is None or value is None:
        return
    for rule in _rules(schema):
        yield from _evaluate(rule, value, schema, pointer)
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from rule_problems(item, field_schema(schema, key), f"{pointer}/{escape(key)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from rule_problems(item, schema.get("items"), f"{pointer}/{index}")


def rules_in(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every rule of a schema, wherever it is."""
    if isinstance(schema, Mapping):
        yield from _rules(schema)
        for key, below in schema.items():
            if key not in ("default", "example", "enum", "x-kubernetes-validations", "allOf"):
                yield from rules_in(below)
    elif isinstance(schema, list):
        for below in schema:
            yield from rules_in(below)


def expression(rule: Mapping[str, Any]) -> str | None:
    """The expression that is evaluated when an object is created; None for a transition rule, which needs an older object."""
    text = str(rule["rule"])
    if not re.search(r"(?<![.\w])oldSelf\b", without_texts(text)):
        return text
    return replace_identifier(text, "oldSelf", "optional.none()") if rule.get("optionalOldSelf") else None


def _rules(schema: Schema) -> Iterator[Mapping[str, Any]]:
    rules = schema.get("x-kubernetes-validations", ())
    if isinstance(rules, list | tuple):  # a field may have this name
        yield from rules
    for part in schema.get("allOf", ()) if isinstance(schema.get("allOf"), list) else ():
        yield from _rules(part)


def _evaluate(rule: Mapping[str, Any], value: Any, schema: Schema, pointer: str) -> Iterator[Problem]:
    text = expression(rule)
    if text is None:
        return
    place = f"{pointer}{_field_path(rule)}"
    broken = f"{shown(pointer)} breaks a rule of its CRD: {str(rule.get('message') or '').strip() or f'rule {text}'}"
    fix = f"write values for which this holds: {text}"
    try:
        if name := _time_read_by(text, schema):
            raise CannotEvaluateError(f"it reads the time {name}")
        holds = CRD_RULES.compile(text)({"self": to_cel(value, schema)})
    except BreaksError as error:
        yield Problem("TW707", place, f"{broken} ({error})", fix)
        return
    except CannotEvaluateError as error:
        by_hand = "check by hand that it holds; a server-side dry run (`kubectl apply --dry-run=server`) evaluates it"
        yield Problem("TW708", place, f"the rule was not evaluated: {text} ({str(error)[:160]})", by_hand)
        return
    if holds is not True:
        yield Problem("TW707", place, broken, fix)


def _field_path(rule: Mapping[str, Any]) -> str:
    """``fieldPath`` such as ``.spec['a-b'].c`` as a pointer."""
    parts = re.findall(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['((?:\\.|[^'])*)'\]", str(rule.get("fieldPath") or ""))
    return "".join(f"/{escape(plain or quoted)}" for plain, quoted in parts)


def _time_read_by(text: str, schema: Schema) -> str | None:
    """The first field with a time that a rule reads; ``has()`` does not read it."""
    if schema.get("format") in _TIMES:
        return "self"
    plain = re.sub(r"\bhas\([^()]*\)", "", without_texts(text))
    return next((name for name in _times_below(schema) if re.search(rf"\.\??{re.escape(name)}\b", plain)), None)


def _times_below(schema: Any) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    for name, below in schema.get("properties", {}).items():
        if isinstance(below, Mapping) and below.get("type") == "string" and below.get("format") in _TIMES:
            yield name
        yield from _times_below(below)
    yield from _times_below(schema.get("items"))
    yield from _times_below(schema.get("additionalProperties"))


def to_cel(value: Any, schema: Schema | None) -> Any:
    """A value with the types that its schema gives it in CEL: an ``integer`` is an int, a ``number`` is a double."""
    if isinstance(value, Mapping):
        named = {key: to_cel(item, field_schema(schema, key)) for key, item in value.items()}
        if schema is None or schema.get("additionalProperties") is not None:
            return named
        return named | {alias: named[key] for key in named if (alias := escaped(key)) != key}
    if isinstance(value, list):
        return [to_cel(item, (schema or {}).get("items")) for item in value]
    kind = (schema or {}).get("type")
    if kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "string" and isinstance(value, str) and (schema or {}).get("format") == "byte":
        try:
            return base64.urlsafe_b64decode(value)
        except (binascii.Error, ValueError):
            return value
    return value


def escaped(key: str) -> str:
    """A field's name as rules write it (apiserver, pkg/cel/escaping.go): ``a__dash__b`` for ``a-b``, ``__in__`` for ``in``."""
    if RESERVED.fullmatch(key):
        return f"__{key}__"
    for plain, word in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        key = key.replace(plain, word)
    return key
