"""An account as people and programs read it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from trainwright.importing.accounting.account import Account, Verdict, native
from trainwright.importing.accounting.runs import Told
from trainwright.importing.accounting.side import Fate
from trainwright.report import finding as report
from trainwright.units import counted

_LONGEST = 100
_MOST = 3
"""Places and fields that are told of one reason; JSON has them all."""


def to_json(told: Sequence[Told]) -> list[dict[str, Any]]:
    """One mapping for each object of the original: its leaves by what became of them, each with its JSON pointer."""
    return [
        {
            "kind": one.kind,
            "name": one.name,
            "run": run,
            "leaves": {fate.value: [_leaf(each) for each in one.verdicts if each.fate is fate] for fate in Fate},
            "adds": [{"why": addition.why, "fields": dict(addition.fields)} for addition in one.adds],
            "findings": report.to_json(findings),
        }
        for one, run, findings in told
    ]


def _leaf(verdict: Verdict) -> str | dict[str, Any]:
    if verdict.fate is Fate.SAME:
        return verdict.pointer
    said: dict[str, Any] = {"path": verdict.pointer, "was": verdict.was}
    if verdict.fate is Fate.LEFT_OUT:
        return {**said, "why": verdict.why, "listed": verdict.listed, "lost": verdict.lost}
    more = {"why": verdict.why, "at": verdict.at}
    return {**said, "is": verdict.now, **{key: text for key, text in more.items() if text}}


def to_text(told: Sequence[Told]) -> str:
    """What a person wants to know of each run: what is lost first, then what is another value, and what ours adds."""
    runs = dict.fromkeys(one.run for one in told if one.run)
    return "\n".join(_of_a_run([one.account for one in told if one.run == run], str(run)) for run in runs)


def _of_a_run(accounts: Sequence[Account], run: str) -> str:
    counts = sum((one.counts for one in accounts), Counter[str]())
    kept, all_of = counts["same"] + counts["renamed"], sum(counts.values()) - counts["listed"]
    ways = ((counts["changed"], "changed"), (counts["override"], "by overrides"), (counts["left_out"], "left out"))
    others = [f"{number} {what}" for number, what in ways if number]
    listed = f"; {counts['listed']} that no run has" if counts["listed"] else ""
    share = f"{kept} of {counted(all_of, 'value')} as they are ({native(counts):.0%})"
    return "\n".join([f"{run}: {', '.join([share, *others])}{listed}", *_lines(accounts)])


def _lines(accounts: Sequence[Account]) -> Iterator[str]:
    """The worst first, a line for each reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in accounts:
        whole = all(verdict.listed for verdict in one.verdicts)
        for verdict in one.verdicts[:1] if whole else one.verdicts:
            if (title := _title(verdict)) is not None:
                within = f"{one.kind} {one.name}" if whole else one.kind
                text = within if whole else f"{within if len(accounts) > 1 else ''} {_shown(verdict)}".strip()
                found.setdefault((title, verdict.why), []).append(text)
        for addition in one.adds:
            told = found.setdefault(("adds", addition.why), [])
            told += [field for field in addition.fields if field not in told]
    for title in ("LOST", "changed", "left out", "override", "never", "adds"):
        yield from (f"  {title:<9} {_few(texts)} ({why})" for (each, why), texts in found.items() if each == title)


def _title(verdict: Verdict) -> str | None:
    if verdict.lost:
        return "LOST"
    if verdict.fate is Fate.LEFT_OUT:
        return "never" if verdict.listed else "left out"
    return None if verdict.fate in (Fate.SAME, Fate.RENAMED) else verdict.fate.value


def _shown(verdict: Verdict) -> str:
    now = f" -> {_short(verdict.now)}" if verdict.fate is Fate.CHANGED else ""
    return f"{verdict.place}: {_short(verdict.was)}{now}{f' at {verdict.at}' if verdict.at else ''}"


def _few(texts: Sequence[str]) -> str:
    more = f", and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
    return "; ".join(texts[:_MOST]) + more


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
