"""What a Volcano Job says of its run: by its plugins and the names of its tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trainwright.objects.fields import items, mapping, text, texts
from trainwright.operators.operator import Around
from trainwright.operators.said import TORCH, Part, Said, count, stated

MASTERS = ("launcher", "mpimaster", "master", "mpi-master")


def said(manifest: Mapping[str, Any], around: Around) -> Said:
    parts = [
        Part(text(task, "/name", f"task-{number}"), max(count(task, "/replicas"), 1), f"/spec/tasks/{number}/template",
             mapping(task, "/template"))
        for number, task in items(manifest, "/spec/tasks")
    ]  # fmt: skip
    retries = stated(manifest, {"/spec/maxRetry": "/restarts"})
    words: dict[str, tuple[Any, str]] = {key: (max(value - 1, 0), there) for key, (value, there) in retries}
    words |= _given_up(manifest)
    if queue := text(manifest, "/spec/queue"):
        words["/queue"] = (queue, "/spec/queue")
    if priority := text(manifest, "/spec/priorityClassName"):
        words["/priority"] = (priority, "/spec/priorityClassName")
    by_name = {one.role: one for one in parts}
    plugins = mapping(manifest, "/spec/plugins")
    master = next((by_name[name] for name in MASTERS if name in by_name), None)
    if ("ssh" in plugins or "mpi" in plugins or _starts_mpi(parts)) and master and len(parts) > 1:
        return Said("volcano-job", _launched(master, parts), ("mpi", "horovod"), words)
    if "ps" in by_name or ("tensorflow" in plugins and "worker" in by_name):
        return _by_tensorflow(by_name, words)
    lead = max(parts, key=lambda one: (one is master, one.pods))
    if {one.role for one in parts} == {"master", "worker"}:  # alike, but for who is the first
        nodes = sum(one.pods for one in parts)
        return Said("volcano-job", (by_name["master"]._replace(role="node", pods=nodes),), TORCH, words)
    others = (one._replace(further=True, ranks=False) for one in parts if one is not lead)
    return Said("volcano-job", (lead._replace(role="node"), *others), TORCH, words)


_ENDS = ("AbortJob", "CompleteJob", "TerminateJob")


def _given_up(manifest: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """No restarts, where a pod that fails ends the Job. The first policy for an event counts."""
    for number, policy in items(manifest, "/spec/policies"):
        if {"PodFailed", "*"} & {text(policy, "/event"), *texts(policy, "/events")}:
            return {"/restarts": (0, f"/spec/policies/{number}/action")} if text(policy, "/action") in _ENDS else {}
    return {}


def _starts_mpi(parts: list[Part]) -> bool:
    said_there = (word for one in parts for _, container in items(one.template, "/spec/containers")
                  for word in (*texts(container, "/command"), *texts(container, "/args")))  # fmt: skip
    return any("mpirun" in word or "mpiexec" in word for word in said_there)


def _launched(master: Part, parts: list[Part]) -> tuple[Part, ...]:
    workers, *others = sorted((one for one in parts if one is not master), key=lambda one: "worker" not in one.role)
    further = (one._replace(further=True, ranks=False) for one in others)
    named = {master.role: "launcher", workers.role: "worker"}
    parts = [master._replace(role="launcher", ranks=False), workers._replace(role="worker"), *further]
    return tuple(one._replace(template=_called(one.template, named)) for one in parts)


_CALLED = re.compile(r"(/etc/volcano/|VC_)([\w.-]+?)(\.host|_HOSTS|_NUM)\b")


def _called(node: Any, named: Mapping[str, str]) -> Any:
    """With the new names of tasks in the files and variables that the plugin svc calls by them."""
    if isinstance(node, Mapping):
        return {key: _called(value, named) for key, value in node.items()}
    if isinstance(node, list):
        return [_called(value, named) for value in node]
    upper = {name.upper().replace("-", "_"): here.upper() for name, here in named.items()}
    return (
        _CALLED.sub(lambda one: one[1] + {**named, **upper}.get(one[2], one[2]) + one[3], node) if isinstance(node, str) else node
    )


def _by_tensorflow(by_name: Mapping[str, Part], words: dict[str, tuple[Any, str]]) -> Said:
    workers = by_name.get("worker") or next(one for one in by_name.values() if one.role != "ps")
    parts, servers, chief = [workers._replace(role="worker")], by_name.get("ps"), by_name.get("chief")
    if chief:
        words["/topology/coordinator" if servers else "/topology/chief"] = (True, chief.pointer)
        parts.append(chief._replace(ranks=not servers))
    if servers:
        words["/topology/parameter_servers"] = (servers.pods, f"{servers.pointer.removesuffix('template')}replicas")
        parts.append(servers._replace(ranks=False))
    known = {one.pointer for one in parts}
    others = (one._replace(further=True, ranks=False) for one in by_name.values() if one.pointer not in known)
    return Said("volcano-job", (*parts, *others), ("parameter-server",) if servers else ("multi-worker-mirrored",), words)
