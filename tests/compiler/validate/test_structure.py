"""Structural schemas, keyword by keyword, and against another implementation of JSON Schema."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.validate.samples import UPSTREAM, Data, names, pointers, put, sample, schema_of, upstream

from trainwright.objects.cel import CannotEvaluateError, matcher
from trainwright.validate.admission import admitted, unknown_fields
from trainwright.validate.structure import list_problems, structure_problems

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
INT_OR_STRING = {"x-kubernetes-int-or-string": True, "anyOf": [WHOLE, TEXT], "pattern": "^[0-9]+$"}


def codes(value: Any, schema: Data) -> list[tuple[str, str]]:
    return [(problem.code, problem.pointer) for problem in structure_problems(value, schema)]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (WHOLE, [0, -5, 2.0], ["1", 1.5, True, None]),
        ({"type": "number"}, [1, 1.5], ["1", False]),
        (TEXT, ["", "x"], [1, True, None]),
        ({"type": "boolean"}, [True, False], [0, "true"]),
        ({"type": "string", "nullable": True}, [None, "x"], [1]),
        ({"type": "string", "nullable": True, "enum": ["a"]}, ["a"], [None, "b"]),
        (INT_OR_STRING, [1, "12"], ["x", 1.5, True, [1]]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, [2], [1]),
        ({"type": "integer", "maximum": 3, "exclusiveMaximum": True}, [2], [3]),
        ({"type": "integer", "format": "int32"}, [2**31 - 1, -(2**31)], [2**31, -(2**31) - 1]),
        ({"type": "integer", "multipleOf": 4}, [0, 8], [6]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
        ({"type": "string", "pattern": "^a$"}, ["a"], ["a\n", "b"]),
        ({"type": "string", "pattern": "b"}, ["abc"], ["ac"]),
        ({"type": "string", "pattern": "^(?i)(abort|warn)?$"}, ["", "ABORT"], ["x"]),
        ({"type": "string", "pattern": r"^\d$"}, ["1"], ["\u0663"]),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", ""]),
        ({"enum": [1, True]}, [1, True, 1.0], [False, 0]),
        ({"type": "array", "items": TEXT, "minItems": 1, "maxItems": 2}, [["a"]], [[], ["a", "b", "c"], [1]]),
        ({"type": "object", "required": ["a"], "properties": {"a": TEXT}}, [{"a": ""}], [{}, {"a": 1}]),
        ({"type": "object", "additionalProperties": WHOLE, "maxProperties": 1}, [{"x": 1}, {}], [{"x": "1"}, {"x": 1, "y": 2}]),
        ({"type": "object", "minProperties": 1}, [{"x": 1}], [{}]),
        ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
        ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"b": 1}, {"a": 1, "b": 2}], [{}]),
        ({"type": "object", "allOf": [{"required": ["a"]}], "not": {"required": ["b"]}}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
        ({"type": "string", "format": "date-time"}, ["2026-01-01T00:00:00Z"], ["2026-13-01T00:00:00Z", "today"]),
        ({"type": "string", "format": "unheard-of"}, ["anything"], [1]),
    ],
)
def test_what_a_keyword_allows(schema: Data, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert codes(value, schema) == [], value
    for value in bad:
        assert codes(value, schema), value


def test_a_pattern_that_is_no_re2_is_reported_and_not_passed_over() -> None:
    assert codes("a", {"type": "string", "pattern": "(?=a)"}) == [("TW708", "")]
    with pytest.raises(CannotEvaluateError):
        matcher("(a")


def test_a_format_that_is_not_known_here_is_reported() -> None:
    assert codes("978-0321751041", {"type": "string", "format": "isbn13"}) == [("TW708", "")]


def test_one_wrong_value_is_told_once() -> None:
    schema = {"type": "object", "properties": {"a": INT_OR_STRING, "b": {"type": "array", "items": WHOLE}}}
    assert codes({"a": [1], "b": "x"}, schema) == [("TW705", "/a"), ("TW705", "/b")]


# Pruning, nulls, defaults.

PRUNED = {
    "type": "object",
    "properties": {
        "known": {"type": "object", "properties": {"x": TEXT}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"inner": {"type": "object"}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": TEXT}}},
        "items": {"type": "array", "items": {"type": "object", "properties": {"x": TEXT}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}},
    },
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}}, []),
        ({"known": {"x": "", "y": 1}}, ["/known/y"]),
        ({"open": {"any": {"thing": 1}, "inner": {"y": 1}}}, ["/open/inner/y"]),
        ({"map": {"any": {"y": 1}}}, ["/map/any/y"]),
        ({"items": [{"x": ""}, {"y": 1}]}, ["/items/1/y"]),
        ({"embedded": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {}, "y": 1}}, ["/embedded/y"]),
        ({"known": {"apiVersion": "v1"}}, ["/known/apiVersion"]),
    ],
)
def test_fields_that_would_be_dropped(value: Data, expected: list[str]) -> None:
    assert [problem.pointer for problem in unknown_fields(value, PRUNED)] == expected
    assert list(unknown_fields(admitted(value, PRUNED), PRUNED)) == []


def test_defaults_come_and_nulls_go() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 3},
            "b": {"type": "object", "default": {}, "properties": {"c": {"type": "string", "default": "x"}}},
            "d": TEXT,
            "e": {"type": "string", "nullable": True},
            "f": {"type": "array", "items": {"type": "object", "properties": {"g": {"type": "integer", "default": 1}}}},
        },
    }
    value = {"a": None, "d": None, "e": None, "f": [{}, {"g": 2}]}
    assert admitted(value, schema) == {"a": 3, "e": None, "b": {"c": "x"}, "f": [{"g": 1}, {"g": 2}]}
    assert value == {"a": None, "d": None, "e": None, "f": [{}, {"g": 2}]}, "the manifest itself is left alone"


def test_items_are_told_apart_by_their_keys_with_defaults() -> None:
    port = {"type": "object", "properties": {"port": WHOLE, "protocol": {"type": "string", "default": "TCP"}}}
    keys = ["port", "protocol"]
    schema = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": port}
    value = [{"port": 1}, {"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP"}]
    assert [problem.pointer for problem in list_problems(admitted(value, schema), schema)] == ["/2"]
    unique = {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}
    assert [problem.pointer for problem in list_problems(["a", "b", "a"], unique)] == ["/2"]
    assert list(list_problems(["a", "a"], {"type": "array", "x-kubernetes-list-type": "atomic", "items": TEXT})) == []


# The same as jsonschema, on upstream schemas.


def as_json_schema(schema: Any) -> Any:
    """A structural schema in the words of JSON Schema 2020-12, without formats and patterns."""
    if isinstance(schema, list):
        return [as_json_schema(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = (
        "required",
        "enum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "minProperties",
        "maxProperties",
        "items",
        "additionalProperties",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
    )
    made = {key: as_json_schema(schema[key]) for key in kept if key in schema and key != "enum"}
    if "enum" in schema:
        made["enum"] = list(schema["enum"])
    types = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else [schema["type"]] if "type" in schema else []
    if types:
        made["type"] = [*types, *(["null"] if schema.get("nullable") else [])]
    if schema.get("type") == "integer" and schema.get("format") in ("int32", "int64"):
        bits = 31 if schema["format"] == "int32" else 63
        made.setdefault("minimum", -(2**bits))
        made.setdefault("maximum", 2**bits - 1)
    if "properties" in schema:
        made["properties"] = {key: as_json_schema(below) for key, below in schema["properties"].items()}
    return made


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, -1, 1.5, 2.0, 2**31, 2**64, True, "", "x", "7", "Never", [], [None], ["x"], [{}], {}, {"name": "x"}]
)

if UPSTREAM:

    def spoil(data: st.DataObject, name: str) -> Data:
        """A sample with one to three values replaced by anything."""
        spoilt = sample(name)
        for _ in range(data.draw(st.integers(1, 3))):
            places = [it for it in pointers(spoilt) if it.startswith("/spec")]
            put(spoilt, data.draw(st.sampled_from(places)), copy.deepcopy(data.draw(JUNK)))
            if not isinstance(spoilt["spec"], dict):
                break
        return spoilt

    @given(data=st.data(), name=st.sampled_from(names(custom=True)))
    def test_jsonschema_agrees(data: st.DataObject, name: str) -> None:
        schema = schema_of(sample(name))
        resource = admitted(spoil(data, name), schema)
        theirs = {
            "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in error.absolute_path)
            for error in jsonschema.Draft202012Validator(as_json_schema(schema)).iter_errors(resource)
        }
        said = [problem for problem in structure_problems(resource, schema) if "match the pattern" not in problem.message]
        ours = {it.pointer.rpartition("/")[0] if it.code == "TW704" else it.pointer for it in said}
        assert ours == theirs

    @given(data=st.data(), name=st.sampled_from(names(custom=True)))
    def test_what_is_admitted_has_no_unknown_fields_and_is_admitted_again_as_it_is(data: st.DataObject, name: str) -> None:
        schema = schema_of(sample(name))
        resource = admitted(spoil(data, name), schema)
        assert list(unknown_fields(resource, schema)) == []
        assert admitted(resource, schema) == resource

    def schemas(node: Any) -> Iterator[Data]:
        if isinstance(node, dict):
            if isinstance(node.get("type"), str) or "anyOf" in node:
                yield node
            for below in node.values():
                yield from schemas(below)
        elif isinstance(node, list):
            for below in node:
                yield from schemas(below)

    def test_every_default_of_the_crds_is_valid() -> None:
        """The API server refuses a CRD whose defaults are not: a check of ours on a thousand values known to be right."""
        checked = 0
        for crd in upstream().crds.values():
            for version in crd.versions.values():
                for schema in schemas(version.schema):
                    if "default" in schema:
                        value = admitted(schema["default"], schema)
                        assert list(structure_problems(value, schema)) == []
                        assert list(unknown_fields(schema["default"], schema)) == []
                        checked += 1
        assert checked > 1000

    def test_every_pattern_of_the_crds_is_re2() -> None:
        patterns = {
            schema["pattern"]
            for crd in upstream().crds.values()
            for version in crd.versions.values()
            for schema in schemas(version.schema)
            if "pattern" in schema
        }
        assert len(patterns) >= 12
        for pattern in patterns:
            matcher(pattern)
