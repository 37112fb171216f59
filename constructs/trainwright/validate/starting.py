"""Pods that no node can start: what the API server, the kubelet or the container runtime refuses of their containers."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.manifest.limits import hides_the_system, not_a_key, path_problem, unexpanded
from trainwright.objects.fields import items, mapping, text, texts, whole
from trainwright.objects.problem import Problem, written

DEFAULT_MODE = 0o644
"""Of files from a ConfigMap or Secret."""


def starting_problems(template: Any) -> Iterator[Problem]:
    """What keeps the containers of a pod template from starting, as far as each container alone and the pod's own fields say."""
    for field in ("initContainers", "containers"):
        for index, container in items(template, f"/spec/{field}"):
            place = f"/spec/{field}/{index}"
            yield from (problem.below(place) for problem in _container(container, mapping(template, "/spec/securityContext")))
            yield from (problem.below(place) for problem in _mounts(template, container))
    for index, volume in items(template, "/spec/volumes"):
        for source in ("configMap", "secret"):
            for number, item in items(volume, f"/{source}/items"):
                yield from _key(item, f"/spec/volumes/{index}/{source}/items/{number}")


def _container(container: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _security(mapping(container, "/securityContext"), pod)
    if texts(container, "/command")[:1] == [""]:
        yield Problem("TW713", "/command/0", "the first word of the command is empty: there is no such program", "name a program")
    for field in ("command", "args"):
        for index, word in enumerate(texts(container, f"/{field}")):
            if "\0" in word:
                yield Problem("TW713", f"/{field}/{index}", "a word of the command holds a NUL character", "remove the character")
    for index, variable in items(container, "/env"):
        yield from (problem.below(f"/env/{index}") for problem in _variable(variable))


def _security(context: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[Problem]:
    place = "/securityContext/allowPrivilegeEscalation"
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged") is True:
            message = "a privileged container cannot have allowPrivilegeEscalation: false"
            yield Problem("TW705", place, message, "remove one of the two")
        if "CAP_SYS_ADMIN" in texts(context, "/capabilities/add"):
            message = "a container with CAP_SYS_ADMIN cannot have allowPrivilegeEscalation: false"
            yield Problem("TW705", place, message, "remove one of the two")
    user, refused = (context.get(key, pod.get(key)) for key in ("runAsUser", "runAsNonRoot"))
    if refused is True and user == 0 and not isinstance(user, bool):
        message = "the container runs as user 0, and runAsNonRoot: true has the kubelet refuse it"
        yield Problem("TW713", "/securityContext", message, "write another runAsUser, or runAsNonRoot: false")


def _variable(variable: Mapping[str, Any]) -> Iterator[Problem]:
    name, value = text(variable, "/name"), text(variable, "/value")
    if "\0" in value:
        yield Problem("TW713", "/value", f"{name} holds a NUL character, which no variable can", "remove the character")
    if said := unexpanded(name, value):
        yield Problem("TW419", "/value", *said)
    if value and at(variable, "/valueFrom") is not None:
        yield Problem("TW705", "", f"{name} has a value and a valueFrom", "remove one of the two")
    for source in ("secretKeyRef", "configMapKeyRef"):
        yield from _key(mapping(variable, f"/valueFrom/{source}"), f"/valueFrom/{source}")


def _key(owner: Mapping[str, Any], place: str) -> Iterator[Problem]:
    key = text(owner, "/key")
    if key and (reason := not_a_key(key)):
        yield Problem("TW705", f"{place}/key", f"the key {written(key)} {reason}", "write another key")


def _mounts(template: Any, container: Mapping[str, Any]) -> Iterator[Problem]:
    volumes = {text(volume, "/name"): volume for _, volume in items(template, "/spec/volumes")}
    mounts = [(index, mount, volumes.get(text(mount, "/name"), {})) for index, mount in items(container, "/volumeMounts")]
    files = {text(mount, "/mountPath") for _, mount, volume in mounts if _mode(mount, volume, "") is not None}
    program = next(iter(texts(container, "/command")), "")
    for index, mount, volume in mounts:
        path, place = text(mount, "/mountPath"), f"/volumeMounts/{index}/mountPath"
        if problem := path_problem(path):
            yield Problem("TW713", place, *problem)
        if hides_the_system(path.rstrip("/") or "/") and "hostPath" not in volume:
            message = f"a mount at {path} hides what every program in the container needs"
            yield Problem("TW713", place, message, "mount it at a folder of its own")
        above = next((file for file in files if path.startswith(f"{file}/")), None)
        if above is not None:
            yield Problem("TW713", place, f"{path} lies below {above}, which is a file", "mount one of the two elsewhere")
        mode = _mode(mount, volume, program) if program else None
        if mode is not None and not mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH):
            message = f"the command runs {program}, a file that is mounted without the permission to run ({mode:04o})"
            fix = f"start it by its interpreter, as in [sh, {program}]; or write `defaultMode: 493` (0755) at the volume"
            yield Problem("TW713", "/command/0", message, fix)


def _mode(mount: Mapping[str, Any], volume: Mapping[str, Any], program: str) -> int | None:
    """Mode of the file that a mount of a ConfigMap or Secret is, or that a program is in it; None where it is none."""
    source = next((mapping(volume, f"/{kind}") for kind in ("configMap", "secret") if at(volume, f"/{kind}") is not None), None)
    key, path = text(mount, "/subPath"), text(mount, "/mountPath").rstrip("/")
    if source is None or (not program and not key):
        return None
    if program and program != path and (key or not program.startswith(f"{path}/")):
        return None
    name = key or program.removeprefix(f"{path}/")
    item = next((item for _, item in items(source, "/items") if text(item, "/path") == name), {})
    own = whole(item, "/mode")
    return own if own is not None else whole(source, "/defaultMode", DEFAULT_MODE)
