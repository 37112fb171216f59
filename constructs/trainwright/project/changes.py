"""What a synth changed, one line a run, from its record before and after: in training terms, without YAML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from trainwright.findings.locate import escape
from trainwright.manifest.kinds import GroupKind
from trainwright.model import Fact
from trainwright.project.record import Records, RunRecord
from trainwright.project.start import Start, anew, place_of, saved_by, start_of, stays
from trainwright.report.facts import shown, told, words
from trainwright.report.values import rate

MOST = 6
"""Facts in one line; a run that changed more is better read in its record."""
LONGEST = 40
"""Characters of a value in the line."""

STOPS = "its job is stopped if it still runs"

ELSEWHERE = ("checkpoints", "checkpoints.lineage")
"""What the end of the line says."""


def run_lines(before: Records, after: Records, changed: Collection[str]) -> Iterator[str]:
    """One line for each run whose record changed; ``changed`` are the runs whose files in ``dist/`` were written."""
    for name in sorted(before.runs.keys() | after.runs.keys()):
        old, new = before.runs.get(name), after.runs.get(name)
        if new is None:
            stopped = f"{old.identity if old else ''} leaves dist/: {STOPS}"
            yield f"{name}: removed, {stopped}; {stays(old.facts if old else {})}"
        elif old is None and name not in changed:
            yield f"{name}: {new.identity} stays, and has a record again"
        elif old is None or (old.state, new.state) == ("done", "active"):
            yield f"{name}: new run {new.identity}; {_summary(new.facts)}"
        elif new.state != "active":
            yield from _left(name, old, new)
        elif old.state == "paused" and old.identity == new.identity:
            yield f"{name}: {new.identity} is back; {_start(old, new)}"
        elif old.identity != new.identity:
            parts = [f"new run {new.identity} replaces {old.identity}", *changed_facts(old.facts, new.facts), _start(old, new)]
            yield f"{name}: {'; '.join(parts)}"
        elif old.hold is None and new.hold is not None:
            yield f"{name}: held as {new.identity}"
        elif _beside_releases(old) != _beside_releases(new):
            what = "changed in place" if old.manifests != new.manifests else "its pods are as before"
            yield f"{name}: {'; '.join([f'{new.identity} stays, {what}', *changed_facts(old.facts, new.facts)])}"


def _left(name: str, old: RunRecord, new: RunRecord) -> Iterator[str]:
    """A run that is paused or done now."""
    if old.state == "active":
        back = " until it is active again" if new.state == "paused" else ""
        yield f"{name}: {new.state}, {new.identity} leaves dist/{back}: {STOPS}; {stays(new.facts)}"
    elif old.state != new.state:
        yield f"{name}: {new.state}, it was {old.state}; {stays(new.facts)}"


def changed_facts(before: Mapping[str, Fact], after: Mapping[str, Fact]) -> list[str]:
    """``learning rate 4.2e-4 → 3.0e-4`` for each fact that differs, in the order of the plan, and how many are left out."""
    if not before or not after:
        return []
    named = (told(before).keys() | told(after).keys()) - set(ELSEWHERE)
    keys = [key for key in dict.fromkeys((*after, *before)) if before.get(key) != after.get(key) and key in named]
    lines = [_change(key, before.get(key), after.get(key)) for key in keys]
    return lines if len(lines) <= MOST else [*lines[:MOST - 1], f"{len(lines) - MOST + 1} more facts"]


def _change(key: str, old: Fact | None, new: Fact | None) -> str:
    label = words(key)
    if old is None or new is None:
        return f"{label} {_shown(new)} added" if old is None else f"{label} {_shown(old)} removed"
    if key.startswith("learning_rate") and isinstance(old, str) and isinstance(new, str):
        old, new = _rounded(old, new)
    if _shown(old) == _shown(new):
        return f"{label} changed"
    return f"{label} {_shown(old)} → {_shown(new)}"


def _rounded(old: str, new: str) -> tuple[str, str]:
    """Rates to two digits, where they still differ then."""
    try:
        short = rate(float(f"{float(old):.1e}")), rate(float(f"{float(new):.1e}"))
    except ValueError:
        return old, new
    return short if short[0] != short[1] else (old, new)


def _shown(value: Fact | None) -> str:
    """Both ends of what is long: an image is told apart by its digest."""
    text = "" if value is None else shown(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 13]}…{text[-12:]}"


def _summary(facts: Mapping[str, Fact]) -> str:
    """``DDP on 32 GPUs of h100-ib``."""
    count = f"{facts['gpus']} GPUs" if "gpus" in facts else f"{facts.get('world_size')} CPU ranks"
    return f"{facts.get('topology')} on {count} of {facts.get('cluster')}"


def _start(old: RunRecord, new: RunRecord) -> str:
    facts = new.facts
    match start_of(old.facts, facts):
        case Start.NOT_SAID:
            return "what it goes on from is not known"
        case start if saved_by(facts) == "own":
            where = f"{facts.get('checkpoints')} as before" if start is Start.FOUND else place_of(facts)
            return f"resumes if its program finds checkpoints in {where}"
        case Start.NEVER:
            return "starts at step 0: it says `resume: never`"
        case Start.UNKNOWN:
            return f"checkpoints of lineage {facts.get('checkpoints.lineage')}"
        case Start.FOUND:
            return f"resumes from lineage {facts['checkpoints.lineage']}"
        case Start.ELSEWHERE:
            return f"{anew(facts)}, unless its checkpoints are in {place_of(facts)}"
        case Start.OTHER:
            return f"{anew(facts)}, unless {facts.get('checkpoints')} has checkpoints"


def _beside_releases(record: RunRecord) -> RunRecord:
    return record.model_copy(update={"written_by": None})


# Of objects.


def object_changes(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> str:
    """``Namespace a added; PersistentVolumeClaim b: /spec/resources/requests/storage 1Ti → 2Ti``, as far as a line goes."""
    old, new = ({object_key(one): one for one in objects} for objects in (before, after))
    said = []
    for key in dict.fromkeys((*new, *old)):
        if key not in old or key not in new:
            said.append(f"{key} {'added' if key in new else 'removed'}")
        elif changed := [_value_change(*each) for each in differences(old[key], new[key])]:
            named = changed if len(changed) < MOST else [*changed[:2], f"{len(changed) - 2} more values"]
            said.append(f"{key}: {', '.join(named)}")
    return "; ".join(said if len(said) <= MOST else [*said[:MOST - 1], f"{len(said) - MOST + 1} more objects"])


def _value_change(pointer: str, old: Any, new: Any) -> str:
    if any(isinstance(value, Mapping | list) for value in (old, new)) or "\n" in f"{old}{new}":
        return f"{pointer} {'added' if old is None else 'removed' if new is None else 'changed'}"
    return f"{pointer} {'(nothing)' if old is None else _shown(old)} → {'(nothing)' if new is None else _shown(new)}"


def object_key(manifest: Mapping[str, Any]) -> str:
    return f"{GroupKind.of(manifest).kind} {manifest['metadata']['name']}"


def differences(before: Any, after: Any, pointer: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Pointer of each value that differs, with what was and what is there; None for nothing."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), f"{pointer}/{escape(str(key))}")
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        for index, (one, other) in enumerate(zip_longest(before, after)):
            yield from differences(one, other, f"{pointer}/{index}")
    elif before != after:
        yield pointer, before, after
