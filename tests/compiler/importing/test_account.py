"""Every leaf of an original is in the account once, and what differs is said to differ."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.fleets import fleet
from tests.compiler.public.cases import NAMES, accounts, needs_originals, originals

from trainwright.findings.locate import at, escape, tokens
from trainwright.importing.account import Account, Fate, Verdict, account
from trainwright.importing.matching import Compiled, compiled_objects
from trainwright.manifest.provenance import put

Data = dict[str, Any]


def pointers(value: Any, pointer: str = "") -> Iterator[str]:
    """Of every leaf, by a walk of its own."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [one for key, each in inner for one in pointers(each, f"{pointer}/{escape(str(key))}")]
    yield from below or [pointer]


def assert_each_once(original: list[Data], told: list[Account]) -> None:
    assert [one["kind"] for one in original] == [one.kind for one in told]
    for manifest, one in zip(original, told, strict=True):
        found = Counter(dict.fromkeys(verdict.pointer for verdict in one.verdicts))
        assert len(found) == len(one.verdicts)
        assert {pointer.partition("#")[0] for pointer in found} == set(pointers(manifest))


@needs_originals
@pytest.mark.parametrize("name", NAMES)
def test_each_leaf_of_a_public_manifest_is_in_the_account_once(name: str) -> None:
    assert_each_once(originals(name), accounts(name))


RUNS = sorted(fleet().runs)


def compiled(run: str) -> list[Compiled]:
    return compiled_objects(fleet().runs[run].compiled)


@pytest.mark.parametrize("run", RUNS)
def test_what_we_wrote_ourselves_is_the_same(run: str) -> None:
    ours = compiled(run)
    told = account([one.manifest for one in ours], ours)
    overrides = {verdict.fate for one in told for verdict in one.verdicts} - {Fate.SAME}
    assert overrides <= {Fate.OVERRIDE}
    assert not any(one.adds for one in told)
    assert_each_once([one.manifest for one in ours], told)


def bent(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x" if isinstance(value, str) else "bent"


def of(told: list[Account], number: int, pointer: str) -> list[Verdict]:
    return [verdict for verdict in told[number].verdicts if verdict.pointer.partition("#")[0] == pointer]


FREE = ("/apiVersion", "/kind", "/metadata/name")


@settings(max_examples=150)
@given(st.data())
def test_a_leaf_that_is_bent_is_said_to_be(data: st.DataObject) -> None:
    ours = compiled(data.draw(st.sampled_from(RUNS), "run"))
    number = data.draw(st.integers(0, len(ours) - 1), "object")
    original = [copy.deepcopy(one.manifest) for one in ours]
    pointer = data.draw(st.sampled_from([one for one in pointers(original[number]) if one not in FREE]), "leaf")
    put(original[number], pointer, bent(at(original[number], pointer)))
    told = account(original, ours)
    assert_each_once(original, told)
    verdicts = of(told, number, pointer)
    assert verdicts
    assert any(verdict.fate is not Fate.SAME for verdict in verdicts), verdicts
    named = tokens(pointer)[-1] in ("name", "groupName")
    assert named or any(verdict.fate in (Fate.CHANGED, Fate.LEFT_OUT) for verdict in verdicts), verdicts


@settings(max_examples=100)
@given(st.data())
def test_a_leaf_that_is_not_in_ours_is_left_out_and_one_that_only_ours_has_is_no_leaf(data: st.DataObject) -> None:
    ours = compiled(data.draw(st.sampled_from(RUNS), "run"))
    number = data.draw(st.integers(0, len(ours) - 1), "object")
    original = [copy.deepcopy(one.manifest) for one in ours]
    pointer = data.draw(st.sampled_from([one for one in pointers(original[number]) if one not in FREE]), "leaf")
    above, _, key = pointer.rpartition("/")
    holder = at(original[number], above)
    if not isinstance(holder, dict):
        return
    value = holder.pop(tokens(pointer)[-1])
    if data.draw(st.booleans(), "renamed"):
        holder[f"{tokens(pointer)[-1]}Bent"] = value
    told = account(original, ours)
    assert_each_once(original, told)
    moved = of(told, number, f"{above}/{key}Bent")
    assert all(verdict.fate in (Fate.CHANGED, Fate.LEFT_OUT) for verdict in moved), moved
