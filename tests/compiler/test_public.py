"""Manifests that people copy, written as runs: what is native, what changes with a reason, and what a run cannot say."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
import yaml
from tests.compiler.compiling import compile_data
from tests.compiler.findings.page import overlay
from tests.compiler.objects import top
from tests.compiler.public.cases import CLUSTER, NAMES, Data, case, native
from tests.compiler.public.leaves import Expected, Fate, fates

from trainwright.compile import CompiledRun

MANIFESTS = os.environ.get("TRAINWRIGHT_MANIFESTS")


def original(name: str, values: Data, kind: str) -> Data:
    """The first object of the kind, with the blanks of a template filled in."""
    text = (Path(str(MANIFESTS)) / f"{name}.yaml").read_text(encoding="utf-8")
    for blank, value in values.items():
        text = text.replace(blank, value)
    found: Data = next(
        one for one in yaml.safe_load_all(text) if one is not None and one["kind"] == kind
    )
    return found


def compiled(told: Data) -> CompiledRun:
    return compile_data(overlay(CLUSTER, told.get("cluster") or {}), {"team": "public", "cluster": "public", **told["run"]})


def compared(name: str) -> dict[str, Fate]:
    told = case(name)
    result = compiled(told)
    kinds: dict[str, str] = told.get("kinds") or {}
    ours = next(one for one in result.manifests if one["kind"] == kinds["ours"]) if kinds else top(result)
    names = {theirs: here.replace("<run>", ours["metadata"]["name"]) for theirs, here in (told.get("names") or {}).items()}
    expected = Expected(names, told.get("changed") or {}, told.get("override") or {}, told.get("missing") or {})
    return fates(original(name, told.get("values") or {}, kinds.get("theirs") or ours["kind"]), ours, expected)


@pytest.mark.skipif(not MANIFESTS, reason="TRAINWRIGHT_MANIFESTS names no folder of public manifests")
@pytest.mark.parametrize("name", NAMES)
def test_every_leaf_is_accounted_for(name: str) -> None:
    found = dict(Counter(compared(name).values()))
    assert found == case(name)["leaves"]
    assert native(found) >= 0.75


def test_most_of_them_is_native() -> None:
    told = Counter[str]()
    for name in NAMES:
        told.update(case(name)["leaves"])
    assert native(told) >= 0.9
    assert told["override"] <= 0.03 * told.total()


def test_a_leaf_that_differs_needs_a_reason_and_a_reason_needs_a_leaf() -> None:
    theirs, ours = {"spec": {"replicas": 3, "name": "web"}}, {"spec": {"replicas": 2, "name": "run"}}
    names = {"web": "run"}
    assert fates(theirs, ours, Expected(names, changed={"spec/replicas": "fewer"})) == {
        "spec/replicas": "changed", "spec/name": "renamed",
    }  # fmt: skip
    with pytest.raises(AssertionError, match="spec/replicas: 3 there; 2 here"):
        fates(theirs, ours, Expected(names))
    with pytest.raises(AssertionError, match="no leaf needs"):
        fates(theirs, ours, Expected(names, changed={"spec/replicas": "fewer"}, missing={"spec/paused": "no such thing"}))
    with pytest.raises(AssertionError, match="order"):
        fates({"args": ["-a", "-b"]}, {"args": ["-b", "-a"]}, Expected())
    with pytest.raises(AssertionError, match="became one"):
        fates({"a": 1, "b": 1}, {"a": 1}, Expected({"b": "a"}))
