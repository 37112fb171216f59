"""Each row of causes: all of its evidence is needed, and all that its sentences name is there."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from hypothesis import find
from hypothesis import strategies as st

from trainwright.live import facts
from trainwright.live.rows import Fact, Row, rows
from trainwright.operators.phase import Phase

ROWS = {row.cause: row for row in rows()}
PHASES = {*Phase.__args__, "gone", "any"}  # type: ignore[attr-defined]
COMMON = {
    "run", "object", "kind", "name", "namespace", "all", "others", "pods", "count", "s", "have", "was", "is", "carry", "then",
    "has",
    "run_pool", "earlier", "rest", "also", "word_of_code", "remedy_of_code", "code_key", "first_short", "plain_short",
}  # fmt: skip
PLACEHOLDER = re.compile(r"\{([a-z_.]+)\}")


def sample(row: Row, kind: str, pattern: str, field: str, values: dict[str, str]) -> str:
    """A text that a pattern takes."""
    if pattern.startswith("{"):
        return values[pattern[1:-1]]
    if pattern[:1] != "/" or len(pattern) < 2:
        return pattern
    # ASCII letters stand for anything: what a shorter text leaves empty is no name
    text = find(
        st.from_regex(re.compile(pattern[1:-1], re.DOTALL), alphabet=st.characters(codec="ascii")), lambda text: bool(text)
    )
    assert row._fits(pattern, text, values), (kind, field, pattern)
    return text


def built(row: Row) -> dict[str, list[Fact]]:
    """Facts with which a row is found, one for each entry that must be there."""
    facts, values = defaultdict[str, list[Fact]](list), dict[str, str]()
    for must, kind, fields in row.entries:
        if must:
            stated = {name: str(options[0] if isinstance(options, list) else options) for name, options in fields.items()}
            found = {name: sample(row, kind, pattern, name, values) for name, pattern in stated.items()}
            facts[kind].append(Fact(kind, {"pod": "", **found}, kind))
    return facts


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_piece_of_evidence_is_needed(row: Row) -> None:
    facts = built(row)
    assert row.look(facts)
    for must, kind, fields in row.entries:
        if must:
            left = facts | {kind: [fact for fact in facts[kind] if not _fits(row, fields, fact)]}
            assert row.look(left) is None, kind
        else:
            there = {name: str(options[0] if isinstance(options, list) else options) for name, options in fields.items()}
            extra = Fact(kind, {name: sample(row, kind, text, name, _bound(row)) for name, text in there.items()}, kind)
            assert row.look({**facts, kind: [*facts.get(kind, ()), extra]}) is None, kind


def _fits(row: Row, fields: object, fact: Fact) -> bool:
    return row._match(fields, fact, _bound(row)) is not None  # type: ignore[arg-type]


def _bound(row: Row) -> dict[str, str]:
    found = row.look(built(row))
    assert found
    return dict(found.values)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_its_sentences_name_only_what_is_known(row: Row) -> None:
    patterns = [str(pattern) for _, _, fields in row.entries for pattern in fields.values()]
    named = {name for pattern in patterns for name in re.findall(r"\(\?P<(\w+)>", pattern)}
    kinds = {kind for must, kind, _ in row.entries if must}
    for text in (row.says, row.next, *row.decides):
        for name in PLACEHOLDER.findall(text):
            assert name in named | COMMON or name.partition(".")[0] in kinds, name


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_it_is_whole(row: Row) -> None:
    assert all((row.says, row.next, row.entries))
    assert set(row.when) <= PHASES
    assert not row.unknown or not row.fine
    assert all(source.startswith(("run:/", "cluster:/", "pod:/", "object:/", "foundation:/")) for source in row.decides)


def test_names_are_unique() -> None:
    assert len(rows()) == len(ROWS)


def test_every_kind_of_fact_is_documented() -> None:
    documented = set(re.findall(r"``(\w+)``", facts.__doc__ or ""))
    assert {kind for row in rows() for _, kind, _ in row.entries} <= documented
