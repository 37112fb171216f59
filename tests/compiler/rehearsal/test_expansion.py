"""``$(VAR)`` is expanded as Kubernetes expands it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.rehearsal.expansion import expand, unresolved

VALUES = {"A": "1", "B": "$(A)", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(A)", "x1y1"),
        ("$(B)", "$(A)"),
        ("[$(EMPTY)]", "[]"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$(A)$", "1$"),
    ],
)
def test_what_becomes_of_a_text(text: str, expected: str) -> None:
    assert expand(text, VALUES) == expected


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_text_without_a_dollar_is_left_alone(text: str) -> None:
    assert expand(text, VALUES) == text


@given(st.text(alphabet="$()AM x"))
def test_it_does_what_the_reference_algorithm_does(text: str) -> None:
    assert expand(text, VALUES) == reference(text)


def test_references_that_stay_are_named() -> None:
    assert unresolved("$(A) $(LATER) $$(ESCAPED)", VALUES) == ["LATER"]


def reference(text: str) -> str:
    """A character-wise transcription of third_party/forked/golang/expansion."""
    result, cursor = "", 0
    while cursor < len(text):
        if text[cursor] != "$" or cursor + 1 == len(text):
            result += text[cursor]
            cursor += 1
        elif text[cursor + 1] == "$":
            result += "$"
            cursor += 2
        elif text[cursor + 1] == "(" and ")" in text[cursor + 2 :]:
            end = text.index(")", cursor + 2)
            name = text[cursor + 2 : end]
            result += VALUES.get(name, f"$({name})")
            cursor = end + 1
        else:
            result += text[cursor : cursor + 2]
            cursor += 2
    return result
