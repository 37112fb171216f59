"""How the Kubernetes fields that differ are shown."""

from __future__ import annotations

import pytest

from trainwright.manifest.kinds import ObjectKey
from trainwright.review.fields import LONGEST, Leaf, field_changes

OPTIONS = "torchrun " + " ".join(f"--option-{number}={number}" for number in range(20))


def shown(before: object, after: object) -> tuple[str | None, str | None]:
    key = ObjectKey("batch", "Job", "training", "example")
    (change,) = field_changes({key: {"spec": {"args": before}}}, {key: {"spec": {"args": after}}})
    return change.before, change.after


@pytest.mark.parametrize(("before", "after", "says"), [
    (f"{OPTIONS} t.py --lr 1e-4", f"{OPTIONS} t.py --lr 3e-4", ("t.py --lr 1e-4", "t.py --lr 3e-4")),
    (OPTIONS, f"{OPTIONS} t.py", ("--option-19=19", "--option-19=19 t.py")),
])  # fmt: skip
def test_long_texts_that_begin_alike_are_shown_from_where_they_differ(before: str, after: str, says: tuple[str, str]) -> None:
    texts = shown(before, after)
    for text, end in zip(texts, says, strict=True):
        assert text is not None
        assert (text.startswith("..."), text.endswith(end), len(text) <= LONGEST) == (True, True, True)


def test_other_texts_are_shown_from_their_beginning() -> None:
    assert shown("a b", "a c") == ("a b", "a c")
    texts = shown(OPTIONS, f"exec {OPTIONS}")
    assert texts == (f"{OPTIONS[:LONGEST - 25]}... ({len(OPTIONS)} characters)",
                     f"{f'exec {OPTIONS}'[:LONGEST - 25]}... ({len(OPTIONS) + 5} characters)")


INIT = [{"name": "fetch", "image": "a"}, {"name": "unpack", "image": "b"}]


@pytest.mark.parametrize(("before", "after", "changes"), [
    (INIT, INIT[::-1], [("spec.args (order)", "fetch, unpack", "unpack, fetch")]),
    (INIT, [{"name": "new"}, INIT[1], {**INIT[0], "image": "c"}], [
        ("spec.args (order)", "fetch, unpack", "unpack, fetch"), ("spec.args[new]", None, '{"name": "new"}'),
        ("spec.args[fetch].image", "a", "c"),
    ]),
    (INIT, [*INIT, {"name": "new"}], [("spec.args[new]", None, '{"name": "new"}')]),
    ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, []),
])  # fmt: skip
def test_another_order_of_named_items_is_a_change(before: object, after: object, changes: list[Leaf]) -> None:
    key = ObjectKey("batch", "Job", "training", "example")
    found = field_changes({key: {"spec": {"args": before}}}, {key: {"spec": {"args": after}}})
    assert [(one.path, one.before, one.after) for one in found] == changes
