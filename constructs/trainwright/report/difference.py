"""Two plans of one run side by side: what another target changes, and what it leaves as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.compile import CompiledRun
from trainwright.report.finding import to_json
from trainwright.report.plan import WIDTH, plan_data, plan_rows


def difference_lines(before: CompiledRun, after: CompiledRun) -> list[str]:
    """A title, the rows of the plan that differ as ``before -> after``, the objects, and the rows that stay."""
    title = f"{before.plan.run}: {before.plan.target_title} -> {after.plan.target_title}"
    return [title, *(f"  {label:<{WIDTH}}{text}" for label, text in _rows(before, after))]


def difference_data(before: CompiledRun, after: CompiledRun) -> dict[str, Any]:
    """The same for a program, with both plans: ``before``, ``after``, what is ``changed`` by its row, and ``same``."""
    compared = _compared(before, after)
    return {
        "before": compiled_data(before),
        "after": compiled_data(after),
        "changed": {label: {"before": old, "after": new} for label, (old, new) in compared.items() if old != new}
        | {"objects": {"before": _kinds(before.manifests), "after": _kinds(after.manifests)}},
        "same": [label for label, (old, new) in compared.items() if old == new],
    }


def compiled_data(compiled: CompiledRun) -> dict[str, Any]:
    """A plan with its findings, as plain JSON."""
    return plan_data(compiled.plan) | {"findings": to_json(compiled.findings)}


def _rows(before: CompiledRun, after: CompiledRun) -> Iterator[tuple[str, str]]:
    compared = _compared(before, after)
    for label, (old, new) in compared.items():
        if old != new:
            yield label, f"{old or 'nothing'} -> {new or 'nothing'}"
    yield "objects", f"{_kinds(before.manifests)} -> {_kinds(after.manifests)}"
    yield "the same", ", ".join(label for label, (old, new) in compared.items() if old == new) or "nothing"


def _compared(before: CompiledRun, after: CompiledRun) -> dict[str, tuple[str | None, str | None]]:
    """Label -> what the row says in each of the two plans; None where one has no such row."""
    old, new = dict(plan_rows(before)), dict(plan_rows(after))
    return {label: (old.get(label), new.get(label)) for label in dict.fromkeys((*old, *new))}


def _kinds(manifests: Sequence[Mapping[str, Any]]) -> str:
    counts = Counter(str(manifest["kind"]) for manifest in manifests)
    return ", ".join(kind if count == 1 else f"{count} {kind}s" for kind, count in counts.items())
