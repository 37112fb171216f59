"""libyaml and ruamel.yaml say the same of a text, wherever libyaml is asked."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.reading.events import RefusedError, UnsureError, careful_events, quick_events

ROOT = Path(__file__).resolve().parents[3]
PLACES = ("charts/*/*.yaml", "tests/compiler/fleet/charts/*/*.yaml", "dist/*/*/*/*.yaml")
FILES = sorted(path for place in PLACES for path in ROOT.glob(place))


def told(event: Any) -> tuple[Any, ...]:
    """What a reader takes from an event."""
    value = getattr(event, "value", None)
    place = (event.start_mark.line, event.start_mark.column) if value != "" else None  # of nothing: before or after the blank
    shape = (getattr(event, "anchor", None), getattr(event, "tag", None), bool(getattr(event, "style", None)))
    return type(event).__name__, place, value, *shape


def content(events: Any) -> list[tuple[Any, ...]]:
    kinds = ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent", "AliasEvent", "SequenceEndEvent", "MappingEndEvent")
    told_of = [told(event) for event in events]
    return [entry if entry[0] in kinds[:4] else (entry[0],) for entry in told_of if entry[0] in (*kinds, "DocumentStartEvent")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_people_write_are_read_alike(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    with suppress(UnsureError):  # in block scalars, and other signs that the two versions see in different ways
        assert content(quick_events(text)) == content(careful_events(text))


def test_runs_and_profiles_are_read_quickly_but_for_text_with_bars() -> None:
    """A bar may begin a block scalar, of which the quick reader is not sure."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "charts").glob("*/*.yaml")]
    quick = [text for text in texts if "|" not in text]
    assert len(quick) > 0.9 * len(texts)
    for text in quick:
        assert list(quick_events(text))


TOKENS = st.sampled_from([
    "a", "b: ", "- ", "? ", ": ", ":", "{", "}", "[", "]", ", ", "'", '"', "#", " #c", "\n", "\n  ", "\n    ", "|", ">", "|-\n",
    "&x ", "*x ", "!t ", "2e-5", "~", "---\n", "...\n", "\\n", "\\u00e4", "é", "@", "`", "<<: ", "x:y", "1:2", "-", "  ",
])


@settings(max_examples=1500, deadline=None)
@given(st.lists(TOKENS, max_size=14).map("".join))
def test_any_text_that_both_read_is_read_alike(text: str) -> None:
    """libyaml takes a few broken texts, such as ``|#``; what it makes of a good one is the same."""
    try:
        quick, careful = content(quick_events(text)), content(careful_events(text))
    except (UnsureError, RefusedError):
        return
    assert quick == careful


@pytest.mark.parametrize("text", ["%YAML 1.1\n---\na: 1\n", "a: b\u2028c\n", "a:\tb\n", "a: \x85b\n"])
def test_what_the_two_versions_see_in_different_ways_is_read_as_1_2(text: str) -> None:
    with pytest.raises(UnsureError):
        list(quick_events(text))
