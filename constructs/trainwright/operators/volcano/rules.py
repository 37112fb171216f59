"""Volcano Job: its validating webhook (volcano, pkg/webhooks/admission/jobs/validate at v1.15).

Whether the queue exists and is open, only the cluster knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, number, text, texts, whole
from trainwright.objects.metadata import not_a_label
from trainwright.objects.problem import Objection, unknown_choice

TASKS = "/spec/tasks"
EVENTS = ("*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
ACTIONS = ("AbortJob", "CompleteJob", "RestartJob", "RestartPartition", "RestartPod", "RestartTask", "ResumeJob", "TerminateJob")
"""What a policy may name (util.go): the CRD has Volcano's own events too, and any action."""
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
    wanted = _option(texts(manifest, "/spec/plugins/mpi"), "master") or "master"
    if "mpi" in mapping(manifest, "/spec/plugins") and wanted not in (text(task, "/name") for _, task in tasks):
        message = f"the mpi plugin looks for a task {wanted}, and there is none"
        yield Objection("/spec/plugins/mpi", message, "add `--master=` with the name of the task that runs mpirun")
    yield from _policies(manifest, "/spec/policies", tasks)
    yield from _topology(manifest, "/spec/networkTopology")
    for index, task in tasks:
        yield from _policies(manifest, f"{TASKS}/{index}/policies", [(index, task)])
        yield from _topology(manifest, f"{TASKS}/{index}/partitionPolicy/networkTopology")
    yield from _tasks(text(manifest, "/metadata/name"), tasks)
    yield from _order(tasks)


def _option(words: list[str], name: str) -> str:
    """The last value of an option as Go's flag package reads it: with one dash or two, and its value in the same word."""
    found = [word.partition("=")[2] for word in words if word.partition("=")[0].lstrip("-") == name]
    return found[-1] if found else ""


def _topology(manifest: Mapping[str, Any], place: str) -> Iterator[Objection]:
    if at(manifest, f"{place}/highestTierAllowed") is not None and text(manifest, f"{place}/highestTierName"):
        message = "the highest tier is stated twice, by number and by name"
        yield Objection(f"{place}/highestTierName", message, "keep one of the two")


def _policies(manifest: Mapping[str, Any], place: str, tasks: list[tuple[int, Mapping[str, Any]]]) -> Iterator[Objection]:
    """One policy an event or exit code (validatePolicies), which pods that the kubelet restarts never get to have."""
    restarts = sorted({text(task, "/template/spec/restartPolicy", "Always") for _, task in tasks})
    seen: set[object] = set()
    for index, policy in items(manifest, place):
        here, action, code = f"{place}/{index}", text(policy, "/action"), whole(policy, "/exitCode")
        events = [("event", text(policy, "/event")), *((f"events/{at}", it) for at, it in enumerate(texts(policy, "/events")))]
        events = [(field, event) for field, event in events if event]
        names = {event for _, event in events} | ({code} if code is not None else set())
        again, kept = seen & names, "Never" in restarts or not restarts
        seen |= names
        rows = (
            (bool(events) and code is not None, "", "a policy is for an event or for an exit code, not for both", "write two"),
            (not events and code is None, "", "the policy is for nothing", "add `event:` or `exitCode:`"),
            (bool(again), "", f"an earlier policy is for {', '.join(map(str, again))} too", "write one policy for each"),
            (code == 0, "/exitCode", "exit code 0 is no failure", "remove the policy, or write `event: TaskCompleted`"),
        )
        yield from (Objection(f"{here}{below}", message, fix) for holds, below, message, fix in rows if holds)
        yield from (_choice(f"{here}/{field}", event, EVENTS) for field, event in events if event not in EVENTS)
        if events and action not in ACTIONS:
            yield _choice(f"{here}/action", action, ACTIONS)
        if code and not kept:
            message = f"no pod ends with {code}: with restartPolicy {' or '.join(restarts)} the kubelet restarts its container"
            yield Objection(f"{here}/exitCode", message, "write `restartPolicy: Never` in the tasks", "TW714")


def _choice(pointer: str, value: str, allowed: tuple[str, ...]) -> Objection:
    return Objection(*unknown_choice(pointer, value, allowed).said)


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
