"""Manifests that people copy, written as runs: what is native, what changes with a reason, and what a run cannot say."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.compiler.public.cases import NAMES, accounts, case, compiled, counts, needs_originals

from trainwright.importing.accounting.account import native
from trainwright.importing.accounting.rows import rows
from trainwright.importing.accounting.side import Fate


@needs_originals
@pytest.mark.parametrize("name", NAMES)
def test_every_leaf_is_accounted_for(name: str) -> None:
    told, found = case(name), accounts(name)
    assert counts(found) == told["leaves"]
    for fate in (Fate.CHANGED, Fate.LEFT_OUT):
        whys = [verdict.why for one in found for verdict in one.verdicts if verdict.fate is fate and not verdict.listed]
        assert list(dict.fromkeys(whys)) == told.get(fate.value, [])


@needs_originals
@pytest.mark.parametrize("name", NAMES)
def test_what_ours_adds_is_on_a_list(name: str) -> None:
    stated = {row["why"] for row in rows()["adds"]}
    assert {addition.why for one in accounts(name) for addition in one.adds} <= stated


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_as_a_run_compiles(name: str) -> None:
    """Also where the originals are not at hand."""
    assert compiled(name).manifests


@pytest.mark.parametrize("name", NAMES)
def test_most_of_each_is_native(name: str) -> None:
    """What a case counts is what came of it: ``test_every_leaf_is_accounted_for``."""
    assert native(case(name)["leaves"]) >= 0.75


def test_most_of_all_is_native() -> None:
    told = Counter[str]()
    for name in NAMES:
        told.update(case(name)["leaves"])
    assert native(told) >= 0.9
    assert told["override"] <= 0.03 * told.total()
