"""Manifests that people copy, written as runs: what is native, what changes with a reason, and what a run cannot say."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.compiling import compile_data
from tests.compiler.findings.page import overlay
from tests.compiler.objects import top
from tests.compiler.public.cases import ADDED, CLUSTER, NAMES, Data, case, native
from tests.compiler.public.leaves import Change, Comparison, Expected, additions, compare, leaves, names_of

from trainwright.manifest.foundation import foundation
from trainwright.manifest.provenance import split

MANIFESTS = os.environ.get("TRAINWRIGHT_MANIFESTS")
needs_originals = pytest.mark.skipif(not MANIFESTS, reason="TRAINWRIGHT_MANIFESTS names no folder of public manifests")


def originals(name: str, told: Data) -> list[Data]:
    """The objects of a public manifest, with the blanks of a template filled in."""
    text = (Path(str(MANIFESTS)) / f"{name}.yaml").read_text(encoding="utf-8")
    for blank, value in (told.get("values") or {}).items():
        text = text.replace(blank, value)
    return [one for one in yaml.safe_load_all(text) if one is not None]


@cache
def compiled(name: str) -> tuple[Data, list[Data]]:
    """The object that carries a run, and all that it compiles to: the foundation of its namespace too."""
    told = case(name)
    result = compile_data(overlay(CLUSTER, told.get("cluster") or {}), {"team": "public", "cluster": "public", **told["run"]})
    return top(result), [*split(foundation(result.cluster, "default"))[0], *result.manifests]


def expected(told: Data, objects: list[Data]) -> Expected:
    """What a case says, with the name of the run's runtime filled in."""
    runtime = next((one["metadata"]["name"] for one in objects if one["kind"] == "TrainingRuntime"), None)

    def here(stated: str | Mapping[str, Any]) -> Mapping[str, Any]:
        values = {stated: None} if isinstance(stated, str) else stated
        return {pattern: runtime if value == "<runtime>" else value for pattern, value in values.items()}

    changed = {pattern: Change(one["why"], here(one["here"])) for pattern, one in (told.get("changed") or {}).items()}
    return Expected(
        told.get("names") or {}, told.get("elements") or {}, changed, told.get("override") or {}, told.get("missing") or {}
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """A public manifest and its run."""

    leaves: Mapping[str, int]
    """Fate -> leaves of the original."""
    added: set[str]
    """The patterns of additions that were needed."""


@cache
def compared(name: str) -> Compared:
    told = case(name)
    carrier, objects = compiled(name)
    here = {one["kind"]: one for one in objects}
    kinds: dict[str, str] = told.get("kinds") or {carrier["kind"]: carrier["kind"]}
    others: dict[str, str] = told.get("others") or {}
    theirs = originals(name, told)
    assert sorted(one["kind"] for one in theirs) == sorted([*kinds, *others]), "each object is walked, or not for a reason"
    pairs = [(one, here[kinds[one["kind"]]]) for one in theirs if one["kind"] in kinds]
    done = compare(pairs, expected(told, objects))
    return Compared(Counter(fate for one in done for fate in one.fates.values()), _added(told, objects, pairs, done))


def _added(told: Data, objects: list[Data], pairs: list[tuple[Data, Data]], done: list[Comparison]) -> set[str]:
    own: dict[str, Data] = told.get("added") or {}
    accounted = {id(ours): one.accounted for (_, ours), one in zip(pairs, done, strict=True)}
    needed = additions([(one, accounted.get(id(one), set())) for one in objects], {**ADDED, **own})
    unneeded = {pattern for patterns in own.values() for pattern in patterns} - needed
    assert not unneeded, f"nothing that ours adds needs {sorted(unneeded)}"
    return needed


@needs_originals
@pytest.mark.parametrize("name", NAMES)
def test_every_leaf_is_accounted_for(name: str) -> None:
    assert compared(name).leaves == case(name)["leaves"]


@needs_originals
def test_every_addition_is_needed() -> None:
    stated = {pattern for patterns in ADDED.values() for pattern in patterns}
    assert not stated.difference(*(compared(name).added for name in NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_what_its_case_says(name: str) -> None:
    """Also where the originals are not at hand."""
    told = case(name)
    _, objects = compiled(name)
    for kind, names in (told.get("names") or {}).items():
        assert set(names.values()) <= set().union(*(names_of(one)[kind] for one in objects))
    for change in expected(told, objects).changed.values():
        for pattern, value in change.here.items():
            found = [mine for one in objects for path, mine in leaves(one) if fnmatchcase("/".join(path), pattern)]
            assert found
            assert value is None or value in found


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


def job(name: str, container: str = "main", **said: Any) -> Data:
    return {"kind": "Job", "metadata": {"name": name}, "spec": {"containers": [{"name": container, **said}]}}


def test_a_leaf_that_differs_needs_a_reason_and_a_reason_needs_a_leaf() -> None:
    theirs, ours = {"spec": {"replicas": 3, "name": "web"}}, {"spec": {"replicas": 2, "name": "web"}}
    fewer = {"spec/replicas": Change("fewer", {"spec/replicas": 2})}
    (done,) = compare([(theirs, ours)], Expected(changed=fewer))
    assert done.fates == {"spec/replicas": "changed", "spec/name": "same"}
    with pytest.raises(AssertionError, match="spec/replicas: 3 there; 2 here"):
        compare([(theirs, ours)], Expected())
    with pytest.raises(AssertionError, match="no leaf needs"):
        compare([(theirs, ours)], Expected(changed=fewer, missing={"spec/paused": "no such thing"}))
    with pytest.raises(AssertionError, match="needs no reason"):
        compare([(theirs, ours)], Expected(changed=fewer, missing={"spec/name": "none"}))
    with pytest.raises(AssertionError, match="order"):
        compare([({"args": ["-a", "-b"]}, {"args": ["-b", "-a"]})], Expected())


@pytest.mark.parametrize(("change", "said"), [
    (Change("fewer", {}), "where it stands here is not said"),
    (Change("fewer", {"spec/pods": 2}), "nothing is at spec/pods here"),
    (Change("fewer", {"spec/replicas": 1}), "and not 1"),
    (Change("elsewhere", {"spec/replicas": None}), "and not 3"),
])  # fmt: skip
def test_a_change_says_what_stands_here_in_its_place(change: Change, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        compare([({"spec": {"replicas": 3}}, {"spec": {"replicas": 2}})], Expected(changed={"spec/replicas": change}))


@pytest.mark.parametrize(("theirs", "ours", "names", "said"), [
    (job("a", env="DEBUG"), job("a", env="INFO"), {"DEBUG": {"INFO": "DEBUG"}}, "is no kind of name"),
    (job("a", env="DEBUG"), job("a", env="INFO"), {"container": {"DEBUG": "INFO"}}, "DEBUG is no container there"),
    (job("a", args=["-e=1"]), job("a", args=["-e=9"]), {"container": {"-e=1": "-e=9"}}, "is no container there"),
    (job("a", "one", image="one:1"), job("a", "two", image="two:1"), {"container": {"one": "two"}}, "'one:1' there; 'two:1'"),
    (job("a", "one", args=["one"]), job("a", "two", args=["two"]), {"container": {"one": "two"}}, "nothing"),
    (job("a"), job("b"), {"container": {"a": "b"}}, "a is no container there"),
    (job("a", "one"), job("b", "two"), {"container": {"one": "three"}}, "three is no container here"),
    (job("a", "one"), job("b", "one"), {"container": {"one": "one"}}, "has its name here too"),
])  # fmt: skip
def test_a_name_is_a_name_of_its_kind(theirs: Data, ours: Data, names: dict[str, dict[str, str]], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        compare([(theirs, ours)], Expected(names))


def test_two_names_do_not_become_one() -> None:
    theirs, ours = ({"spec": {"containers": [{"name": name} for name in names]}} for names in (["one", "two"], ["mpi"]))
    with pytest.raises(AssertionError, match="two names of a container became one"):
        compare([(theirs, ours)], Expected({"container": {"one": "mpi", "two": "mpi"}}))
    with pytest.raises(AssertionError, match="two names of a container became one"):
        compare([(theirs, {"spec": {"containers": [{"name": "two"}]}})], Expected({"container": {"one": "two"}}))


def test_two_elements_of_one_list_do_not_become_one() -> None:
    theirs = {"spec": {"containers": [{"name": "one", "image": "a"}, {"name": "two", "image": "a"}]}}
    ours = {"spec": {"containers": [{"name": "mpi", "image": "a"}]}}
    named = Change("each pod has one", {"*/containers/mpi/name": "mpi"})
    elements = {"containers/one": "mpi", "containers/two": "mpi"}
    with pytest.raises(AssertionError, match="spec/containers/two/image and spec/containers/one/image became one"):
        compare([(theirs, ours)], Expected(elements=elements, changed={"*/name": named}))


def pytorch_job(name: str, command: str) -> Data:
    worker = {"containers": [{"name": "pytorch", "command": [command]}]}
    return {"kind": "PyTorchJob", "metadata": {"name": name}, "spec": {"pytorchReplicaSpecs": {"Worker": worker}}}


@pytest.mark.parametrize(("here", "fate"), [
    ("run --master_addr diffusion-h0-worker-0", "renamed"),
    ("run --master_addr diffusion-worker-0", None),
    ("run --master_addr diffusion-h0-worker-1", None),
])  # fmt: skip
def test_a_host_follows_the_name_of_its_object(here: str, fate: str | None) -> None:
    theirs, ours = pytorch_job("diffusion", "run --master_addr diffusion-worker-0"), pytorch_job("diffusion-h0", here)
    if fate is None:
        with pytest.raises(AssertionError, match="and no reason is given"):
            compare([(theirs, ours)], Expected())
        return
    (done,) = compare([(theirs, ours)], Expected())
    assert set(done.fates.values()) == {"same", "renamed"}


@pytest.mark.parametrize(
    "text", ["my-diffusion-worker-0", "diffusion-worker-0-log", "registry/diffusion:1", "diffusion", "diffusion-other-0"]
)
def test_a_text_that_is_no_host_stays(text: str) -> None:
    (done,) = compare([(pytorch_job("diffusion", text), pytorch_job("diffusion-h0", text))], Expected())
    assert [fate for leaf, fate in done.fates.items() if "command" in leaf] == ["same"]


@pytest.mark.parametrize("more", [{"hostNetwork": True}, {"env": [{"name": "EXTRA", "value": "1"}]}, {"grace": 61}])
def test_what_ours_has_beyond_the_original_is_on_a_list(more: Data) -> None:
    added = {"a pod has time": {"Job/*/grace": 60}}
    theirs, ours = job("a"), job("a", grace=60)
    (done,) = compare([(theirs, ours)], Expected())
    assert additions([(ours, done.accounted)], added) == {"Job/*/grace"}
    wider = {**ours, "spec": {"containers": [{**ours["spec"]["containers"][0], **more}]}}
    with pytest.raises(AssertionError, match="is here, and not in the original"):
        additions([(wider, done.accounted)], added)


def test_an_addition_may_repeat_what_stands_elsewhere() -> None:
    added = {"the first of the workers": {"Job/spec/master/*": "as Job/spec/worker/"}}
    objects = {"kind": "Job", "spec": {"worker": {"image": "a"}, "master": {"image": "a"}}}
    accounted = {("kind",), ("spec", "worker", "image")}
    assert additions([(objects, accounted)], added) == {"Job/spec/master/*"}
    for master in ({"image": "b"}, {"image": "a", "hostNetwork": True}):
        with pytest.raises(AssertionError, match="is here, and not in the original"):
            additions([({"kind": "Job", "spec": {"worker": {"image": "a"}, "master": master}}, accounted)], added)
