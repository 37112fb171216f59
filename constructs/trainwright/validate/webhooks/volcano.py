"""Volcano Job: its validating webhook (volcano, pkg/webhooks/admission/jobs/validate at v1.15).

Whether the queue exists and is open, only the cluster knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.validate.fields import items, mapping, number, text, texts, whole
from trainwright.validate.metadata import not_a_label
from trainwright.validate.problem import Objection

TASKS = "/spec/tasks"
PLUGINS = ("env", "svc", "ssh", "tensorflow", "mpi", "pytorch", "ray", "hcclrank")


def volcano_job(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    tasks = list(items(manifest, TASKS))
    if not tasks:
        yield Objection(TASKS, "a Volcano Job needs a task", "add one with a pod template")
    for field in ("minAvailable", "maxRetry", "ttlSecondsAfterFinished"):
        if number(manifest, f"/spec/{field}", 0) < 0:
            yield Objection(f"/spec/{field}", f"{field} cannot be negative", "write 0 or more")
    pods = sum(number(task, "/replicas", 1) for _, task in tasks)
    if tasks and number(manifest, "/spec/minAvailable", 0) > pods:
        message = f"minAvailable is {whole(manifest, '/spec/minAvailable')}, and the tasks have {pods} pods"
        yield Objection("/spec/minAvailable", message, f"write at most {pods}")
    for plugin in mapping(manifest, "/spec/plugins"):
        if plugin not in PLUGINS:
            yield Objection(f"/spec/plugins/{plugin}", f"Volcano has no plugin {plugin}", f"write one of {', '.join(PLUGINS)}")
    yield from _tasks(text(manifest, "/metadata/name"), tasks)
    yield from _order(tasks)


def _tasks(name: str, tasks: list[tuple[int, Mapping[str, Any]]]) -> Iterator[Objection]:
    seen: set[str] = set()
    for index, task in tasks:
        place, shown = f"{TASKS}/{index}", text(task, "/name", f"default{index}")
        replicas = number(task, "/replicas", 1)
        if reason := not_a_label(shown):
            yield Objection(f"{place}/name", f"the task name {shown} {reason}", "choose another name")
        if shown in seen:
            yield Objection(f"{place}/name", f"two tasks are named {shown}", "choose another name")
        seen.add(shown)
        if replicas < 0:
            yield Objection(f"{place}/replicas", f"task {shown} has {replicas} pods", "write 0 or more")
        if not 0 <= number(task, "/minAvailable", 0) <= replicas:
            message = f"minAvailable of task {shown} is not between 0 and its {replicas} pods"
            yield Objection(f"{place}/minAvailable", message, f"write 0 to {replicas}")
        longest = f"{name}-{shown}-{max(replicas - 1, 0)}"
        if reason := not_a_label(longest):
            yield Objection(f"{place}/name", f"Volcano derives the pod name {longest}, which {reason}", "choose shorter names")


def _order(tasks: list[tuple[int, Mapping[str, Any]]]) -> Iterator[Objection]:
    """dependsOn must lead somewhere, and never back."""
    waits = {text(task, "/name"): texts(task, "/dependsOn/name") for _, task in tasks}
    for index, task in tasks:
        for name in texts(task, "/dependsOn/name"):
            if name not in waits:
                yield Objection(f"{TASKS}/{index}/dependsOn/name", f"there is no task {name}", f"name one of: {', '.join(waits)}")
        if _leads_to(waits, text(task, "/name"), text(task, "/name"), set()):
            yield Objection(f"{TASKS}/{index}/dependsOn", f"task {text(task, '/name')} waits for itself", "break the cycle")


def _leads_to(waits: Mapping[str, list[str]], start: str, goal: str, seen: set[str]) -> bool:
    for name in waits.get(start, ()):
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            if _leads_to(waits, name, goal, seen):
                return True
    return False
