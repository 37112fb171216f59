"""What a manifest may hold: everything that is let through comes back from cdk8s's YAML as it was."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from trainwright.cdk8s import write_files
from trainwright.manifest.plain import problems

ALPHABET = "0123456789oxeE+-._:~=<>!&*|%@`#,[]{}?'\"\\ ynaNTtruFlse\n\t\r\x00\x1b\x7f\x85é\u00a0\u2028\ufeff😀"
AWKWARD = st.text(st.sampled_from(ALPHABET), max_size=9)
TEXT = AWKWARD | st.text(max_size=20) | st.text(st.sampled_from(" \n\ta#-"), max_size=6)
NUMBER = st.integers(-(2**54), 2**54) | st.floats()
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


class Colour(StrEnum):
    RED = "red"


def manifest(value: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "thing"}, "spec": value}


@settings(max_examples=150, deadline=None)
@given(st.lists(VALUE, min_size=1, max_size=12))
def test_what_is_let_through_comes_back_unchanged(values: list[Any]) -> None:
    kept = [value for value in values if not list(problems(value))]
    with TemporaryDirectory() as folder:
        write_files({"things.k8s.yaml": [manifest(kept)]}, Path(folder))
        document = YAML(typ="safe", pure=True).load(Path(folder, "things.k8s.yaml"))
    assert document == manifest(kept)


@pytest.mark.parametrize(
    ("value", "pointer", "word"),
    [
        (float("nan"), "", "nan"),
        ({"a": [1, float("inf")]}, "/a/1", "inf"),
        ({"a": {"b/c~d": -float("inf")}}, "/a/b~1c~0d", "inf"),
        ([2**53 + 1], "/0", "rounded"),
        ([1e300], "/0", "rounded"),
        ({"a": (1, 2)}, "/a", "tuple"),
        ({"a": b"x"}, "/a", "bytes"),
        ({"a": Colour.RED}, "/a", "Colour"),
        ({1: "x"}, "", "not a string"),
        ({"a": None}, "/a", "null"),
        ({"a": [1, None]}, "/a/1", "null"),
        (["You are a helpful assistant that answers questions.\n \nAnswer.\n  "], "/0", "a line of one blank"),
        (["a\0b"], "/0", "NUL"),
        ({"$jsii.byref": "x"}, "/$jsii.byref", "reserved"),
        ({"__proto__": {}}, "/__proto__", "reserved"),
        (["="], "/0", "'='"),
        (["<<"], "/0", "'<<'"),
        (["0o17"], "/0", "'0o17'"),
        (["a\tb"], "/0", "tab"),
        (["\techo\n"], "/0", "tab"),
        ([" \n"], "/0", "blanks"),
        (["a\u2028b"], "/0", "\\u2028"),
        (["\ud800"], "/0", "\\ud800"),
    ],
)
def test_what_would_not_arrive_is_named_with_its_place(value: Any, pointer: str, word: str) -> None:
    [(place, reason)] = problems(value)
    assert place == pointer
    assert word in reason


def test_every_problem_is_named() -> None:
    assert [pointer for pointer, _ in problems({"a": float("nan"), "b": [(), "="]})] == ["/a", "/b/0", "/b/1"]


@pytest.mark.parametrize("value", [2**53, -(2**53), 0.1, "", "\n", "yes", "1e-5", "0123", "a\n\tb\n", [[]], True, {"on": 1}])
def test_ordinary_values_pass(value: Any) -> None:
    assert list(problems(value)) == []
