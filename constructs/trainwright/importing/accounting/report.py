"""An account as people and programs read it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.findings import Finding
from trainwright.importing.accounting.account import Account, Fate, Verdict, native
from trainwright.report import finding as report
from trainwright.units import counted

_LONGEST = 100
_MOST = 3
"""Places and fields that are told of one reason; JSON has them all."""


def to_json(
    accounts: Sequence[Account], run: str, findings: Mapping[int, Sequence[Finding]] | None = None
) -> list[dict[str, Any]]:
    """One mapping for each object of the original: its leaves by what became of them, each with its JSON pointer.

    Args:
        accounts: of the objects of one run.
        run: its name.
        findings: number of an object -> what the original has as it stands.
    """
    return [
        {
            "kind": one.kind,
            "name": one.name,
            "run": run,
            "leaves": {fate.value: [_leaf(each) for each in one.verdicts if each.fate is fate] for fate in Fate},
            "adds": [{"why": addition.why, "fields": dict(addition.fields)} for addition in one.adds],
            "findings": report.to_json((findings or {}).get(number, ())),
        }
        for number, one in enumerate(accounts)
    ]


def _leaf(verdict: Verdict) -> str | dict[str, Any]:
    if verdict.fate is Fate.SAME:
        return verdict.pointer
    said: dict[str, Any] = {"path": verdict.pointer, "was": verdict.was}
    if verdict.fate is Fate.LEFT_OUT:
        return {**said, "why": verdict.why, "listed": verdict.listed, "lost": verdict.lost}
    more = {"why": verdict.why, "at": verdict.at}
    return {**said, "is": verdict.now, **{key: text for key, text in more.items() if text}}


def to_text(accounts: Sequence[Account], run: str) -> str:
    """What a person wants to know of one run: what is lost first, then what is another value, and what ours adds."""
    counts = sum((one.counts for one in accounts), Counter[str]())
    kept, all_of = counts["same"] + counts["renamed"], sum(counts.values()) - counts["listed"]
    ways = ((counts["changed"], "changed"), (counts["override"], "by overrides"), (counts["left_out"], "left out"))
    others = [f"{number} {what}" for number, what in ways if number]
    listed = f"; {counts['listed']} that no run has" if counts["listed"] else ""
    share = f"{kept} of {counted(all_of, 'value')} as they are ({native(counts):.0%})"
    return "\n".join([f"{run}: {', '.join([share, *others])}{listed}", *_lines(accounts)])


def _lines(accounts: Sequence[Account]) -> Iterator[str]:
    verdicts = [(one, verdict) for one in accounts for verdict in one.verdicts]
    ranks = {
        "LOST": [pair for pair in verdicts if pair[1].lost],
        "changed": [pair for pair in verdicts if pair[1].fate is Fate.CHANGED],
        "left out": [pair for pair in verdicts if pair[1].fate is Fate.LEFT_OUT and not pair[1].lost and not pair[1].listed],
        "override": [pair for pair in verdicts if pair[1].fate is Fate.OVERRIDE],
        "never": [pair for pair in verdicts if pair[1].listed],
    }
    for title, pairs in ranks.items():
        for why, places in _by_reason(pairs, with_objects=len(accounts) > 1).items():
            yield f"  {title:<9} {_few(places)}\n            {why}"
    for one in accounts:
        yield from (f"  {'adds':<9} {_few(list(addition.fields))}\n            {addition.why}" for addition in one.adds)


def _by_reason(pairs: Sequence[tuple[Account, Verdict]], *, with_objects: bool) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one, verdict in pairs:
        place = f"{one.kind} {one.name} {verdict.place}" if with_objects else verdict.place
        value = f"{_short(verdict.was)} -> {_short(verdict.now)}" if verdict.fate is Fate.CHANGED else _short(verdict.was)
        value += f" at {verdict.at}" if verdict.at else ""
        found.setdefault(verdict.why, []).append(f"{place}: {value}")
    return found


def _few(texts: Sequence[str]) -> str:
    more = f", and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
    return "; ".join(texts[:_MOST]) + more


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
