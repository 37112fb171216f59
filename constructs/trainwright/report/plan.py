"""The plan as a person reads it: numbers with their reasons, no Kubernetes needed; and two plans side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any

from trainwright.compile import CompiledRun
from trainwright.findings import visible
from trainwright.findings.locate import Locator, dotted, escape, tokens
from trainwright.model import Model
from trainwright.plan import Plan
from trainwright.plan.model import MemoryPlan
from trainwright.report.facts import ENTRIES, View, plan_values
from trainwright.report.queue import together
from trainwright.report.values import Facts

WIDTH = 14


def plan_lines(compiled: CompiledRun, locate: Locator | None = None, others: Iterable[Facts] = ()) -> list[str]:
    """A title and one aligned line a subject; with a locator also what the run has from the defaults of its project.

    Args:
        others: what the records of the other active runs of the project state, which share its queue.
    """
    plan = compiled.plan
    title = f"{plan.name} on {plan.cluster} · {plan.topology} · {plan.target_title}"
    *rows, findings = plan_rows(compiled, others)
    places = default_places(locate) if locate else {}
    cited = ", ".join(f"{name} from {where}" for name, where in places.items())
    rows += [("defaults", cited)] if cited else []
    return _aligned(title, [*rows, findings])


def _aligned(title: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    return [visible(line) for line in (title, *(f"  {label:<{WIDTH}}{text}" for label, text in rows))]


def default_places(locate: Locator) -> dict[str, str]:
    """What the run has from defaults, such as ``restarts`` or ``env.HF_HOME`` -> the file and line that say it."""
    defaulted = locate.defaulted
    pointers = [
        pointer
        for field, value in defaulted.values.items()
        for pointer in ([f"/{escape(field)}"] if f"/{escape(field)}" in defaulted.positions and not isinstance(value, Mapping)
                        else [f"/{escape(field)}/{escape(str(key))}" for key in value])
    ]
    return {dotted(tokens(pointer)): f"{defaulted.file}:{locate.run(pointer).line}" for pointer in pointers}


def plan_rows(compiled: CompiledRun, others: Iterable[Facts] = ()) -> Iterator[tuple[str, str]]:
    """Label and text of each row; that of its findings is the last, and before it what it and ``others`` ask of their queue."""
    rows = [
        (entry.heading(compiled) if entry.heading else entry.called, text)
        for entry in ENTRIES.values() if entry.row and (text := entry.row(compiled))
    ]  # fmt: skip
    shared = together(compiled, others)
    yield from (*rows[:-1], *([("queue", shared)] if shared else []), rows[-1])


def plan_data(plan: Plan) -> dict[str, Any]:
    """The same numbers for a program: plain JSON, sizes in bytes, CPUs in millicores."""
    data: dict[str, Any] = _plain(plan)
    return data


def _plain(value: Any) -> Any:
    """A part of the plan, and what is in it."""
    if hasattr(value, "_fields"):
        sums = {"low": value.low, "high": value.high} if isinstance(value, MemoryPlan) else {}
        return {name: _plain(part) for name, part in zip(value._fields, value, strict=True)} | sums
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Model):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)  # a quantity
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def difference_lines(before: CompiledRun, after: CompiledRun) -> list[str]:
    """A title, the rows of the plan that differ as ``before -> after``, the objects, and the rows that stay."""
    changed, same = _compared(before, after)
    rows = {label: f"{row['before'] or 'nothing'} -> {row['after'] or 'nothing'}" for label, row in changed.items()}
    title = f"{before.plan.run}: {before.plan.target_title} -> {after.plan.target_title}"
    return _aligned(title, [*rows.items(), ("the same", ", ".join(same) or "nothing")])


def difference_data(before: CompiledRun, after: CompiledRun) -> dict[str, Any]:
    """The same for a program, with both plans: ``before``, ``after``, what is ``changed`` by its row, and ``same``."""
    changed, same = _compared(before, after)
    return {"before": compiled_data(before), "after": compiled_data(after), "changed": changed, "same": same}


def compiled_data(compiled: CompiledRun) -> dict[str, Any]:
    """A plan with its findings, as plain JSON."""
    return plan_data(compiled.plan) | dict(plan_values(compiled, View.JSON))


def _compared(before: CompiledRun, after: CompiledRun) -> tuple[dict[str, dict[str, str | None]], list[str]]:
    """What each row that differs says in both plans, None where one has no such row, and the objects; and the rows that stay."""
    old, new = dict(plan_rows(before)), dict(plan_rows(after))
    rows = {label: {"before": old.get(label), "after": new.get(label)} for label in (old | new)}
    changed = {label: row for label, row in rows.items() if row["before"] != row["after"]}
    same = [label for label in rows if label not in changed]
    return changed | {"objects": {"before": _kinds(before.manifests), "after": _kinds(after.manifests)}}, same


def _kinds(manifests: Sequence[Mapping[str, Any]]) -> str:
    counts = Counter(str(manifest["kind"]) for manifest in manifests)
    return ", ".join(kind if count == 1 else f"{count} {kind}s" for kind, count in counts.items())
