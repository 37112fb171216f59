"""The projection of objects that the hash in a name is of."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from trainwright.identity import PLACEHOLDER, identity_hash
from trainwright.plan.checkpoint import short_hash

Data = dict[str, Any]

JOB: Data = {
    "apiVersion": "batch/v1", "kind": "Job",
    "metadata": {"name": f"one-{PLACEHOLDER}", "namespace": "n", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {"parallelism": 2, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "trainer"}]}}},
}


def edited(*path: str, value: Any) -> Data:
    job = copy.deepcopy(JOB)
    node = job
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return job


def hashed(manifest: Data, mutable: tuple[str, ...] = (), attempt: int = 1) -> str:
    return identity_hash([manifest], {"Job": mutable}, attempt)


def test_a_hash_is_eight_characters_that_fit_a_dns_label_and_cannot_be_misread() -> None:
    assert re.fullmatch(r"[a-z0-9]{8}", hashed(JOB))
    assert len(PLACEHOLDER) == len(hashed(JOB))
    letters = {letter for number in range(3000) for letter in short_hash(number)}
    assert letters <= set("abcdefghjkmnpqrstvwxyz0123456789")


@pytest.mark.parametrize("path", [("metadata", "labels"), ("metadata", "annotations")])
def test_labels_and_annotations_of_objects_are_left_out(path: tuple[str, ...]) -> None:
    assert hashed(edited(*path, value={"another": "value"})) == hashed(JOB)
    assert hashed(edited(*path, value={})) == hashed(JOB)


@pytest.mark.parametrize(
    "path",
    [
        ("metadata", "name"),
        ("metadata", "namespace"),
        ("spec", "parallelism"),
        ("spec", "template", "metadata", "labels"),
        ("kind",),
    ],
)
def test_everything_else_is_part_of_it(path: tuple[str, ...]) -> None:
    assert hashed(edited(*path, value="another")) != hashed(JOB)


def test_what_a_kind_may_change_in_place_is_left_out_at_any_depth() -> None:
    mutable = ("/spec/parallelism", "/spec/template/metadata/labels", "/spec/absent/too")
    moved = edited("spec", "parallelism", value=9)
    moved["spec"]["template"]["metadata"]["labels"] = {}
    assert hashed(moved, mutable) == hashed(JOB, mutable)
    assert hashed(edited("spec", "template", "spec", value={}), mutable) != hashed(JOB, mutable)


def test_only_the_kind_that_is_listed_is_spared() -> None:
    service = JOB | {"kind": "Service"}
    moved = edited("spec", "parallelism", value=9) | {"kind": "Service"}
    assert hashed(moved, ("/spec/parallelism",)) != hashed(service, ("/spec/parallelism",))


def test_the_attempt_and_the_order_of_objects_are_part_of_it() -> None:
    assert hashed(JOB, attempt=2) != hashed(JOB)
    other = JOB | {"kind": "Service"}
    assert identity_hash([JOB, other], {}, 1) != identity_hash([other, JOB], {}, 1)


def test_the_order_of_keys_is_not() -> None:
    assert hashed(dict(reversed(JOB.items()))) == hashed(JOB)


def test_hashing_changes_nothing() -> None:
    before = copy.deepcopy(JOB)
    hashed(JOB, ("/spec/parallelism",))
    assert before == JOB
