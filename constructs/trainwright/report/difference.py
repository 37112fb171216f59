"""Two plans of one run side by side: what another target changes, and what it leaves as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.compile import CompiledRun
from trainwright.report.plan import WIDTH, plan_rows


def difference_lines(before: CompiledRun, after: CompiledRun) -> list[str]:
    """A title, the rows of the plan that differ as ``before -> after``, the objects, and the rows that stay."""
    title = f"{before.plan.run}: {before.plan.target_title} -> {after.plan.target_title}"
    return [title, *(f"  {label:<{WIDTH}}{text}" for label, text in _rows(before, after))]


def _rows(before: CompiledRun, after: CompiledRun) -> Iterator[tuple[str, str]]:
    old, new = dict(plan_rows(before)), dict(plan_rows(after))
    same = []
    for label in dict.fromkeys((*old, *new)):
        if old.get(label) == new.get(label):
            same.append(label)
        else:
            yield label, f"{old.get(label, 'nothing')} -> {new.get(label, 'nothing')}"
    yield "objects", f"{_kinds(before.manifests)} -> {_kinds(after.manifests)}"
    yield "the same", ", ".join(same) or "nothing"


def _kinds(manifests: Sequence[Mapping[str, Any]]) -> str:
    counts = Counter(str(manifest["kind"]) for manifest in manifests)
    return ", ".join(kind if count == 1 else f"{count} {kind}s" for kind, count in counts.items())
