"""Laws of the merge patch."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trainwright.findings.locate import escape
from trainwright.overrides.merge import ADDITIVE, MERGE_KEYS, merge, same, touched

FIELDS = st.sampled_from(
    ("a", "b", "name", "containers", "env", "ports", "volumeMounts", "mountPath", "containerPort", "tolerations", "x/y", "~")
)
SCALARS = st.one_of(st.booleans(), st.integers(0, 2), st.sampled_from((0.0, 1.0, "", "p", "q")))


def values(patch: bool) -> st.SearchStrategy[Any]:
    leaves = st.one_of(SCALARS, st.none()) if patch else SCALARS
    return st.recursive(
        leaves, lambda inner: st.one_of(_mappings(inner), st.lists(inner, max_size=3), _named(inner)), max_leaves=12
    )


def _mappings(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(FIELDS, inner, max_size=4)


def _named(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Items with a key, each only once."""

    def items(key: str) -> st.SearchStrategy[list[Any]]:
        keys = st.lists(st.sampled_from(("p", "q", 1, 2)), unique=True, max_size=3)
        return st.tuples(keys, st.lists(_mappings(inner), min_size=3, max_size=3)).map(
            lambda drawn: [more | {key: value} for value, more in zip(drawn[0], drawn[1], strict=False)]
        )

    return st.sampled_from(("name", "containerPort", "mountPath")).flatmap(items)


TARGETS = st.dictionaries(FIELDS, values(patch=False), max_size=5)
PATCHES = st.dictionaries(FIELDS, values(patch=True), max_size=5)


@given(TARGETS, PATCHES)
def test_merging_twice_is_merging_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge(target, patch)
    assert same(merge(once, patch), once)
    assert list(touched(once, patch)) == []


@given(TARGETS, PATCHES)
def test_neither_target_nor_patch_is_changed(target: dict[str, Any], patch: dict[str, Any]) -> None:
    before, change = copy.deepcopy(target), copy.deepcopy(patch)
    list(touched(target, patch))
    merge(target, patch)
    assert same(before, target)
    assert same(change, patch)


@given(TARGETS, PATCHES)
def test_touched_names_exactly_what_changes(target: dict[str, Any], patch: dict[str, Any]) -> None:
    merged = merge(target, patch)
    places = [pointer for pointer, _ in touched(target, patch)]
    for pointer in places:
        assert not same(at(target, pointer), at(merged, pointer)), pointer
    for pointer in differences(target, merged):
        assert any(pointer == place or pointer.startswith(f"{place}/") for place in places), pointer


@given(TARGETS, PATCHES)
def test_touched_points_into_the_patch(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for pointer, there in touched(target, patch):
        assert at(patch, there) is not MISSING
        assert pointer.rpartition("/")[2] == there.rpartition("/")[2] or pointer.rpartition("/")[2].isdigit()


@given(TARGETS)
def test_an_empty_patch_changes_nothing(target: dict[str, Any]) -> None:
    assert same(merge(target, {}), target)
    assert list(touched(target, {})) == []


@given(TARGETS)
def test_a_patch_on_nothing_is_the_patch(target: dict[str, Any]) -> None:
    assert same(merge({}, target), target)


MISSING: Any = object()


def at(node: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(key)] if int(key) < len(node) else MISSING
        else:
            node = node.get(key, MISSING) if isinstance(node, dict) else MISSING
    return node


def differences(one: Any, other: Any, pointer: str = "") -> list[str]:
    """Pointers of the deepest values that differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return [
            place
            for key in keys
            for place in differences(one.get(key, MISSING), other.get(key, MISSING), f"{pointer}/{escape(key)}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) <= len(other):
        longer = [*one, *[MISSING] * (len(other) - len(one))]
        return [place for index, value in enumerate(longer) for place in differences(value, other[index], f"{pointer}/{index}")]
    return [] if one is not MISSING and other is not MISSING and same(one, other) else [pointer]


def test_lists_of_named_things_merge_by_their_key() -> None:
    target = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    patch = {"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}
    assert merge(target, patch) == {
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]
    }
    assert list(touched(target, patch)) == [("/env/1/value", "/env/0/value"), ("/env/2", "/env/1")]


def test_every_special_list_has_its_key() -> None:
    for field, key in MERGE_KEYS.items():
        assert merge({field: [{key: "p", "x": 1}]}, {field: [{key: "p", "y": 2}]}) == {field: [{key: "p", "x": 1, "y": 2}]}


def test_tolerations_add_up() -> None:
    assert frozenset({"tolerations"}) == ADDITIVE
    target = {"tolerations": [{"key": "a"}]}
    assert merge(target, {"tolerations": [{"key": "a"}, {"key": "b"}]}) == {"tolerations": [{"key": "a"}, {"key": "b"}]}


def test_other_lists_are_replaced_and_null_removes() -> None:
    assert merge({"args": ["a", "b"], "x": 1}, {"args": ["c"], "x": None, "y": None}) == {"args": ["c"]}


def test_true_is_not_one() -> None:
    assert list(touched({"a": 1}, {"a": True})) == [("/a", "/a")]
    assert list(touched({"a": 1}, {"a": 1})) == []
