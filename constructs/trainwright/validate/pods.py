"""Pods and other kinds of Kubernetes itself: what no schema can say, since two values decide it (pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at, escape
from trainwright.manifest.kinds import GroupKind
from trainwright.validate.fields import items, mapping, text
from trainwright.validate.formats import amount
from trainwright.validate.metadata import annotation_problems, label_problems
from trainwright.validate.problem import Problem, duplicate

JOB, CRON_JOB = GroupKind("batch", "Job"), GroupKind("batch", "CronJob")
TEMPLATES: Mapping[GroupKind, str] = {
    GroupKind("", "Pod"): "",
    GroupKind("", "PodTemplate"): "/template",
    GroupKind("", "ReplicationController"): "/spec/template",
    GroupKind("apps", "DaemonSet"): "/spec/template",
    GroupKind("apps", "Deployment"): "/spec/template",
    GroupKind("apps", "ReplicaSet"): "/spec/template",
    GroupKind("apps", "StatefulSet"): "/spec/template",
    JOB: "/spec/template",
    CRON_JOB: "/spec/jobTemplate/spec/template",
}
"""Kind -> pointer to its pod template."""


def pod_problems(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of an object that its schema allows."""
    kind = GroupKind.of(manifest)
    if kind in TEMPLATES:
        pointer = TEMPLATES[kind]
        yield from (problem.below(pointer) for problem in template_problems(at(manifest, pointer)))
    if kind in (JOB, CRON_JOB):
        pointer = "/spec/jobTemplate" if kind == CRON_JOB else ""
        yield from (problem.below(pointer) for problem in _job(at(manifest, pointer)))
    if kind.group == "apps":
        yield from _selected(manifest)
    if kind == GroupKind("", "Service"):
        yield from _service(manifest)
    if kind == GroupKind("", "PersistentVolumeClaim") and at(manifest, "/spec/resources/requests/storage") is None:
        place = "/spec/resources/requests/storage"
        yield Problem("TW704", place, "the claim requests no storage", "add `resources: {requests: {storage: 10Gi}}`")


def template_problems(template: Any) -> Iterator[Problem]:
    """Problems of a pod or pod template: duplicate names, mounts without a volume, limits below requests, labels."""
    yield from label_problems(at(template, "/metadata/labels"), "/metadata/labels")
    yield from annotation_problems(at(template, "/metadata/annotations"), "/metadata/annotations")
    for field in ("containers", "initContainers", "volumes"):
        yield from _unique(template, f"/spec/{field}", "name")
    for index, volume in items(template, "/spec/volumes"):
        sources = [key for key, value in volume.items() if key != "name" and value is not None]
        if len(sources) > 1:  # one without a source is an emptyDir, by default
            message = f"volume {text(volume, '/name')} has {len(sources)} sources"
            yield Problem("TW705", f"/spec/volumes/{index}", message, f"keep one of {', '.join(sources)}")
    names = {text(container, "/name") for _, container in items(template, "/spec/containers")}
    for field in ("initContainers", "containers"):
        for index, container in items(template, f"/spec/{field}"):
            yield from _container(template, f"/spec/{field}/{index}")
            if field == "initContainers" and text(container, "/name") in names:
                message = f"an init container and a container are both named {text(container, '/name')}"
                yield Problem("TW706", f"/spec/{field}/{index}/name", message, "rename one of the two")


def _container(template: Any, place: str) -> Iterator[Problem]:
    yield from _unique(template, f"{place}/ports", "name")
    yield from _unique(template, f"{place}/volumeMounts", "mountPath")
    volumes = {text(volume, "/name") for _, volume in items(template, "/spec/volumes")}
    for index, mount in items(template, f"{place}/volumeMounts"):
        name = text(mount, "/name")
        if name not in volumes:
            known = ", ".join(sorted(volumes)) or "none"
            pointer = f"{place}/volumeMounts/{index}/name"
            yield Problem("TW705", pointer, f"the pod has no volume {name}", f"add it, or name one of: {known}")
    yield from _resources(mapping(template, f"{place}/resources/requests"), mapping(template, f"{place}/resources/limits"), place)


def _resources(requests: Mapping[str, Any], limits: Mapping[str, Any], place: str) -> Iterator[Problem]:
    for name, asked in requests.items():
        least, most = amount(asked), amount(limits.get(name))
        pointer = f"{place}/resources/requests/{escape(name)}"
        if "/" in name and not name.startswith("kubernetes.io/") and (most is None or least != most):
            message = f"{place} requests {asked} {name} and has {'no limit' if most is None else f'a limit of {limits[name]}'}"
            yield Problem("TW705", pointer, message, "write the same amount in requests and limits: devices are not shared")
        elif least is not None and most is not None and least > most:
            message = f"{place} requests {asked} {name}, more than its limit of {limits[name]}"
            yield Problem("TW705", pointer, message, "request at most the limit")


def _job(manifest: Any) -> Iterator[Problem]:
    restart = text(manifest, "/spec/template/spec/restartPolicy")
    if restart not in ("Never", "OnFailure"):
        message = f"the pods of a Job cannot have restartPolicy {restart or 'Always, which is the default'}"
        yield Problem("TW705", "/spec/template/spec/restartPolicy", message, "write Never or OnFailure")
    if at(manifest, "/spec/podFailurePolicy") is not None and restart == "OnFailure":
        yield Problem("TW705", "/spec/podFailurePolicy", "a podFailurePolicy needs pods with restartPolicy Never", "write Never")
    if text(manifest, "/spec/completionMode") == "Indexed":
        for field in ("completions", "parallelism"):
            if at(manifest, f"/spec/{field}") is None:
                yield Problem("TW704", f"/spec/{field}", f"an Indexed Job has no `{field}`", f"add `{field}:`")
    elif at(manifest, "/spec/backoffLimitPerIndex") is not None:
        yield Problem("TW705", "/spec/backoffLimitPerIndex", "only an Indexed Job has indexes", "add `completionMode: Indexed`")


def _selected(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    labels = mapping(manifest, "/spec/template/metadata/labels")
    for key, value in mapping(manifest, "/spec/selector/matchLabels").items():
        if labels.get(key) != value:
            pointer = f"/spec/selector/matchLabels/{escape(key)}"
            message = f"the pods have no label {key}: {value}, which the selector asks for"
            yield Problem("TW705", pointer, message, "add it to the template")


def _service(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _unique(manifest, "/spec/ports", "name")
    ports = list(items(manifest, "/spec/ports"))
    for index, port in ports:
        if len(ports) > 1 and not text(port, "/name"):
            message = f"/spec/ports/{index} has no name, and there are {len(ports)} ports"
            yield Problem("TW704", f"/spec/ports/{index}/name", message, "add `name:` to each port")


def _unique(owner: Any, place: str, field: str) -> Iterator[Problem]:
    """Items with the same text in a field. A container's variables are not looked at: they may repeat, and the last one wins."""
    first: dict[str, int] = {}
    for index, item in items(owner, place):
        value = text(item, f"/{field}")
        if value and (earlier := first.setdefault(value, index)) != index:
            yield duplicate(place, index, earlier, {field: value})
