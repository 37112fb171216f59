"""What rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.objects.fields import items, text, texts
from trainwright.objects.problem import Problem


def no_circle(tasks: Any, job: object) -> Iterator[Problem]:
    """``dependsOn`` never leads back."""
    waits = {text(task, "/name"): texts(task, "/dependsOn/name") for _, task in items(tasks, "")}
    for index, task in items(tasks, ""):
        name = text(task, "/name")
        if _leads_to(waits, name, name, set()):
            yield Problem("TW711", f"/{index}/dependsOn", f"task {name} waits for itself", "break the cycle")


def _leads_to(waits: Mapping[str, list[str]], start: str, goal: str, seen: set[str]) -> bool:
    for name in waits.get(start, ()):
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            if _leads_to(waits, name, goal, seen):
                return True
    return False
