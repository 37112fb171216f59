"""What rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.objects.fields import items, mapping, text, texts
from trainwright.objects.problem import Problem, choose
from trainwright.operators.volcano.options import OPTIONS, read_options

_TASKS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "mpi": (("master", "TW711", "the webhook refuses the Job"), ("worker", "TW714", "MPI_HOST is not set")),
    "ray": (("head", "TW711", "no pod is made"), ("worker", "TW714", "no worker joins the head")),
    "pytorch": (
        ("master", "TW714", "no pod is told MASTER_ADDR, WORLD_SIZE or RANK"),
        ("worker", "TW714", "no other pod is told its RANK"),
    ),
}  # fmt: skip
"""Plugin -> options that name a task, and what follows where there is none of that name (plugins/distributed-framework)."""


def plugins(_: Any, job: Mapping[str, Any]) -> Iterator[Problem]:
    """Options that a plugin knows, and tasks that it finds."""
    stated = mapping(job, "/spec/plugins")
    names = [text(task, "/name") for _, task in items(job, "/spec/tasks")]
    for plugin in (name for name in OPTIONS if name in stated):
        words, place = texts(stated, f"/{plugin}"), f"/{escape(plugin)}"
        told, unread = read_options(plugin, words)
        if unread is not None and plugin != "env":
            message = f"the {plugin} plugin cannot read the option {words[unread]}, and ignores it and what follows"
            option = words[unread].lstrip("-").partition("=")[0]
            fix = choose(option, list(OPTIONS[plugin])) if option not in OPTIONS[plugin] else f"write `--{option}=VALUE`"
            yield Problem("TW714", f"{place}/{unread}", message, fix)
        for option, code, effect in _TASKS.get(plugin, ()):
            wanted = told.get(option, str(OPTIONS[plugin][option]))
            if wanted not in names and (option != "worker" or len(names) > 1):  # one pod alone needs none
                message = f"the {plugin} plugin looks for a task {wanted}, and there is none: {effect}"
                yield Problem(code, place, message, f"add `--{option}=` with the name of the task, one of: {', '.join(names)}")
        roles = {told.get(role, str(role)) for role in ("ps", "worker", "chief", "evaluator")}
        if plugin == "tensorflow" and roles.isdisjoint(names):
            message = f"no task has a role that the tensorflow plugin knows ({', '.join(sorted(roles))}): TF_CONFIG names no host"
            yield Problem("TW714", place, message, "add `--worker=` with the name of the task whose pods are workers")


def ray_containers(tasks: Any, job: Mapping[str, Any]) -> Iterator[Problem]:
    """The ray plugin gives ``ray start`` to a container by its name, and to no other."""
    if "ray" not in mapping(job, "/spec/plugins"):
        return
    options = {**OPTIONS["ray"], **read_options("ray", texts(job, "/spec/plugins/ray"))[0]}
    for index, task in items(tasks, ""):
        named = [text(container, "/name") for _, container in items(task, "/template/spec/containers")]
        for role in ("head", "worker"):
            wanted = str(options[f"{role}Container"])
            if text(task, "/name") == options[role] and wanted not in named:
                message = f"the ray plugin starts Ray in a container {wanted}, and task {text(task, '/name')} has none"
                fix = f"name the container {wanted}, or add `--{role}Container=` to the plugin"
                yield Problem("TW714", f"/{index}/template/spec/containers", message, fix)


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
