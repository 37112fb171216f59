"""What pydantic refuses, as findings: each thing to mend once, on its line, in the user's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import escape
from trainwright.reading.shape import Keys, Slot, find_spot, fits, required
from trainwright.reading.wording import Case, dotted, meant, say

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def refusals(error: ValidationError, model: type[BaseModel] | None, data: object, where: Callable[[str], Where]) -> list[Finding]:
    """The findings of a validation error: one for each thing to mend, sorted by line.

    Args:
        error: what pydantic raised.
        model: what was validated, where it is known.
        data: what it was validated from.
        where: the place of a JSON pointer into the data.
    """
    root = Slot(model if model is not None else Any)
    cases = [_case(detail, root, data) for detail in error.errors(include_url=False)]
    findings, undecided = [], list(_undecided(cases, data, where))
    told = list(_apart(cases, data, root))
    # a type that decides between its members by itself, such as JsonValue, has branches that no shape knows: say all
    for case in told if told or undecided else cases:
        words = say(case)
        findings.append(found(words.code, where(_pointer(case.place)), words.message, words.fix))
    unique = dict.fromkeys([*findings, *undecided])
    return sorted(unique, key=lambda finding: (finding.where.line or 0, finding.where.column or 0))


def _case(error: ErrorDetails, root: Slot, data: object) -> Case:
    spot = find_spot(root, error["loc"])
    siblings = _at(data, spot.keys[:-1])
    if isinstance(siblings, BaseModel):
        siblings = siblings.__dict__
    return Case(error, spot, root, _at(data, spot.keys), siblings if isinstance(siblings, Mapping) else {})


def _at(data: object, keys: Keys) -> object:
    """The value below the keys; None where there is none."""
    for key in keys:
        if isinstance(data, Mapping):
            data = data.get(key)
        elif isinstance(data, list | tuple) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            data = getattr(data, key, None) if isinstance(data, BaseModel) and isinstance(key, str) else None
    return data


def _pointer(keys: Keys) -> str:
    return "".join(f"/{escape(str(key))}" for key in keys)


def _apart(cases: Sequence[Case], data: object, root: Slot) -> Iterator[Case]:
    """Cases that say something of their own.

    Pydantic reports every member of an untagged union: only the one that the value was meant to be counts. A misspelt key is also
    a missing one: that is said once.
    """
    unknown = [case for case in cases if case.error["type"] == "extra_forbidden"]
    misspelt = {(*case.spot.keys[:-1], near) for case in unknown if (near := meant(case))}
    for case in cases:
        if any(index != _best(root, keys, data) for keys, index in case.spot.branches):
            continue
        if case.error["type"] == "missing" and case.spot.keys in misspelt:
            continue
        yield case


def _best(root: Slot, keys: Keys, data: object) -> int | None:
    """Index of the member that a value was most likely meant to be; None where nothing in it says so."""
    members, value = _union_at(root, keys, data), _at(data, keys)
    scores = [fits(member, value) for member in members]
    best = max(scores)
    if best[0] < 0 or (isinstance(value, Mapping) and best[0] == 0):
        return None
    return scores.index(best)


def _union_at(root: Slot, keys: Keys, data: object) -> tuple[Slot, ...]:
    """Members of the union at a place, found through the values on the way."""
    slot, value = root, data
    for key in keys:
        slot, value = _member(slot, value).below(key), _at(value, (key,))
    return slot.members


def _member(slot: Slot, value: object) -> Slot:
    members, tags = slot.members, slot.tags()
    if tags:
        tag = _at(value, (slot.plain.discriminator or "",))
        return tags.get(str(tag), Slot(Any))
    return max(members, key=lambda member: fits(member, value))


def _undecided(cases: Sequence[Case], data: object, where: Callable[[str], Where]) -> Iterator[Finding]:
    """One finding for each value that could be no member of its union."""
    for keys, root in dict.fromkeys((keys, case.root) for case in cases for keys, _ in case.spot.branches):
        if _best(root, keys, data) is None:
            ways = []
            for member in _union_at(root, keys, data):
                needs = required(member.model) if member.model else ()
                ways.append(f"`{', '.join(f'{name}: …' for name in needs)}`" if needs else "text")
            message = f"`{dotted(keys)}` is none of the things that it can be"
            yield found("TW107", where(_pointer(keys)), message, f"write {', or '.join(ways)}")
