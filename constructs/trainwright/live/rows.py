"""Causes as rows: what must be seen, what is said then, which line decides it, and what to do.

``live/causes/*.yaml`` has those of Kubernetes, ``causes.yaml`` in an operator's folder those of that operator. A file is a list.
A row says:

- ``cause``: its name.
- ``when``: the phases of a run in which it is asked (:mod:`trainwright.operators.phase`); ``gone`` where its object is not there.
- ``stage``: its place among the others, by :data:`STAGES`; the first row whose evidence is all there is the answer.
- ``evidence``: a list, all needed, in order. Each entry is a kind of fact (:mod:`trainwright.live.facts`) with patterns for
  its fields: a text is equal, a list has one that is, ``/…/`` is a regular expression that is found, ``{name}`` what an entry
  before has named by ``(?P<name>…)``. ``no pod:`` asks that there is none such.
- ``says``: one sentence. ``{name}`` is what a pattern named, ``{event.message}`` a field of the fact that was found, ``{pods}``
  the pods of all facts like the first, ``{count}`` how many, and what :func:`trainwright.live.facts.common` has.
- ``decides``: what decides it, as :mod:`trainwright.live.decides` reads it: a field of an object (``pod:/priorityClassName``),
  whose line follows from where its value comes from, or a line itself (``run:/restarts``); the first that a file states.
- ``next``: what to write or type.
- ``unknown``: true where the evidence proves only that something is wrong; ``says`` then tells what it may have been.
- ``fine``: true where nothing is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.findings.locate import escape
from trainwright.operators.phase import Phase

STAGES = (
    "life", "queue", "creation", "lost", "placement", "start", "data", "meeting", "code", "pace", "end", "between",
)  # fmt: skip
"""Of a run's life, in the order in which causes are looked for: what was taken away comes before what is missing since, and what
ended a run by itself after what ended it from outside."""

_IN_TEXT = re.compile(r"\{([a-z_]+(?:\.[a-z_]+)?)\}")
_WAITING: tuple[Phase | str, ...] = ("waiting", "starting", "suspended")


class Fact(NamedTuple):
    """Something that an object or an event says."""

    kind: str
    fields: Mapping[str, str]
    shows: str
    """As it is quoted."""

    @property
    def pod(self) -> str:
        return self.fields.get("pod", "")


Facts = Mapping[str, Sequence[Fact]]
"""Kind -> its facts."""


class Found(NamedTuple):
    """A row whose evidence is all there."""

    row: Row
    facts: tuple[Fact, ...]
    """One for each entry of its evidence."""
    values: Mapping[str, str]
    pods: tuple[str, ...]

    def text(self, template: str, common: Mapping[str, str]) -> str:
        """With its values filled in."""
        known = self._known(common)
        return " ".join(_IN_TEXT.sub(lambda match: known.get(match[1], ""), template).split())

    def sources(self, common: Mapping[str, str]) -> list[str]:
        """What its row says decides it, with its values as tokens of pointers."""
        known = self._known(common)
        return [_IN_TEXT.sub(lambda match: escape(known.get(match[1], "")), one) for one in self.row.decides]

    def _known(self, common: Mapping[str, str]) -> dict[str, str]:
        known = {**common, **self.values}
        for fact in reversed(self.facts):
            known |= {f"{fact.kind}.{name}": value for name, value in fact.fields.items()}
        return known


@dataclass(frozen=True)
class Row:
    """One cause."""

    cause: str
    stage: str
    evidence: Sequence[Mapping[str, Mapping[str, Any]]]
    says: str
    next: str
    when: Sequence[str] = _WAITING
    decides: Sequence[str] = ()
    unknown: bool = False
    fine: bool = False
    source: str = ""
    _patterns: dict[str, re.Pattern[str]] = field(default_factory=dict, compare=False)

    @cached_property
    def entries(self) -> list[tuple[bool, str, Mapping[str, Any]]]:
        """Whether it must be there, kind, and patterns."""
        flat = [(kind, fields or {}) for entry in self.evidence for kind, fields in entry.items()]
        return [(not kind.startswith("no "), kind.removeprefix("no "), fields) for kind, fields in flat]

    def look(self, facts: Facts) -> Found | None:
        """What it finds; None where a piece of its evidence is not there."""
        first = next(self._solve(self.entries, facts, {}, ()), None)
        if first is None:
            return None
        values, found = first
        must, kind, fields = self.entries[0]
        alike = [
            fact for fact in facts.get(kind, ())
            if fact.pod and (bound := self._match(fields, fact, {})) is not None and _agree(bound, values, self.says)
        ] if must else []  # fmt: skip
        pods = tuple(dict.fromkeys(fact.pod for fact in (*alike, *(one for one in found if one.pod and not alike))))
        return Found(self, found, values, pods)

    def _solve(
        self,
        entries: Sequence[tuple[bool, str, Mapping[str, Any]]],
        facts: Facts,
        values: Mapping[str, str],
        found: tuple[Fact, ...],
    ) -> Iterator[tuple[Mapping[str, str], tuple[Fact, ...]]]:
        if not entries:
            yield values, found
            return
        (must, kind, fields), *rest = entries
        matches = ((fact, bound) for fact in facts.get(kind, ()) if (bound := self._match(fields, fact, values)) is not None)
        if not must:
            if next(matches, None) is None:
                yield from self._solve(rest, facts, values, found)
            return
        for fact, bound in matches:
            yield from self._solve(rest, facts, bound, (*found, fact))

    def _match(self, fields: Mapping[str, Any], fact: Fact, values: Mapping[str, str]) -> dict[str, str] | None:
        """The values with those that the fact's fields give; None where one does not fit."""
        bound = dict(values)
        for name, pattern in fields.items():
            value = fact.fields.get(name, "")
            options = pattern if isinstance(pattern, list) else [pattern]
            if not any(self._fits(str(option), value, bound) for option in options):
                return None
        return bound

    def _fits(self, pattern: str, value: str, bound: dict[str, str]) -> bool:
        if pattern[:1] == "{" and pattern[-1:] == "}":
            return value == bound.get(pattern[1:-1])
        if len(pattern) < 2 or pattern[0] != "/" or pattern[-1] != "/":
            return value == pattern
        if pattern not in self._patterns:
            self._patterns[pattern] = re.compile(pattern[1:-1], re.DOTALL)
        match = self._patterns[pattern].search(value)
        if match:
            bound |= {name: text or "" for name, text in match.groupdict().items()}
        return match is not None


def _agree(bound: Mapping[str, str], values: Mapping[str, str], says: str) -> bool:
    """Whether a further fact tells the same story: what the sentence names is the same."""
    named = set(_IN_TEXT.findall(says))
    return all(values.get(name) == value for name, value in bound.items() if name in named)


@cache
def rows() -> tuple[Row, ...]:
    """All causes, in the order in which they are looked for."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a wheel without libyaml is slow, and right
    here = Path(__file__).parent
    files = [*sorted(here.parent.glob("operators/*/causes.yaml")), *sorted((here / "causes").glob("*.yaml"))]
    found = [Row(**data) for path in files for data in yaml.load(path.read_bytes(), loader)]  # noqa: S506
    return tuple(sorted(found, key=lambda row: STAGES.index(row.stage)))
