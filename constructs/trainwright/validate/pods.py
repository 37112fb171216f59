"""Pods and other kinds of Kubernetes itself: what no schema can say, since two values decide it (pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at, escape
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.limits import image_problem, not_a_key
from trainwright.manifest.pods import CONTAINER_LISTS, images_outside, pods_in
from trainwright.objects.fields import items, mapping, text
from trainwright.objects.formats import amount
from trainwright.objects.metadata import annotation_problems, label_problems
from trainwright.objects.problem import Problem, duplicate, written
from trainwright.operators.operator import makes_pods
from trainwright.validate.core import is_core
from trainwright.validate.starting import starting_problems
from trainwright.validate.volumes import outside, volume_problems

SECRET, CONFIG_MAP = GroupKind("", "Secret"), GroupKind("", "ConfigMap")
TRAIN_JOB, PER_NODE = GroupKind("trainer.kubeflow.org", "TrainJob"), "/spec/trainer/resourcesPerNode"
COMPLETED_LATER = frozenset({GroupKind("trainer.kubeflow.org", kind) for kind in ("TrainingRuntime", "ClusterTrainingRuntime")})
"""Kinds whose pods another object completes: a TrainJob brings volumes, images and commands."""

FILLS_IN = frozenset({"argoproj.io", "tekton.dev", "kyverno.io", "kro.run", "templates.gatekeeper.sh", "template.openshift.io"})
"""Groups of kinds whose controllers replace parts of texts before they make a pod, as Katib does in kubeflow.org."""


def pod_problems(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of the pods of any object, and of other kinds of Kubernetes itself, that a schema allows."""
    kind = GroupKind.of(manifest)
    stated = makes_pods(manifest) or is_core(str(manifest["apiVersion"]))
    for pointer, template in pods_in(manifest):
        above = pointer.removesuffix("/spec")
        yield from (problem.below(above) for problem in template_problems(template))
        if kind.group not in FILLS_IN and kind.kind not in ("Experiment", "Trial"):
            yield from (problem.below(pointer) for problem in _images(template["spec"], stated))
        if kind not in COMPLETED_LATER:
            yield from (problem.below(above) for problem in reference_problems(template, _volumes_above(manifest, above)))
    for pointer, reference in images_outside(manifest) if makes_pods(manifest) else ():
        if said := image_problem(reference):
            yield Problem("TW713", pointer, *said)
    if kind == TRAIN_JOB:
        yield from _stated(mapping(manifest, PER_NODE), PER_NODE)
    if kind in (SECRET, CONFIG_MAP):
        yield from _keys(manifest)
    if kind.group == "apps":
        yield from _selected(manifest)
    if kind == GroupKind("", "Service"):
        yield from _service(manifest)


def _images(spec: Mapping[str, Any], stated: bool) -> Iterator[Problem]:
    """Images that no node can pull; where each container has to state one, also that it does."""
    named = [(f"/{field}/{index}/image", at(it, "/image")) for field in CONTAINER_LISTS for index, it in items(spec, f"/{field}")]
    volumes = ((f"/volumes/{index}/image/reference", at(it, "/image/reference")) for index, it in items(spec, "/volumes"))
    for pointer, reference in (*named, *volumes):
        if isinstance(reference, str) and reference and (said := image_problem(reference)):
            yield Problem("TW713", pointer, *said)
    for pointer, reference in named if stated else ():
        if not reference:
            yield Problem("TW704", pointer, "the container has no `image`", "add `image:`")


def _volumes_above(manifest: Mapping[str, Any], pointer: str) -> Iterator[str]:
    """Names of volumes that a controller adds to the pod below a pointer, since an object around it states them: the claims of a
    StatefulSet, a LeaderWorkerSet and a JobSet, the volumes of a SparkApplication and of a workflow."""
    parts = pointer.split("/")
    for depth in range(1, len(parts)):
        owner = at(manifest, "/".join(parts[:depth]))
        policies = [policy for _, policy in items(owner, "/volumeClaimPolicies")]
        for stated, field in ((owner, "/volumeClaimTemplates"), *((policy, "/templates") for policy in policies)):
            yield from (text(claim, "/metadata/name") for _, claim in items(stated, field))
        yield from (text(volume, "/name") for _, volume in items(owner, "/volumes"))


def template_problems(template: Any) -> Iterator[Problem]:
    """Problems of a pod or pod template: duplicate names, limits below requests, labels, and what keeps it from starting."""
    yield from label_problems(at(template, "/metadata/labels"), "/metadata/labels")
    yield from annotation_problems(at(template, "/metadata/annotations"), "/metadata/annotations")
    for field in ("containers", "initContainers", "volumes", "resourceClaims", "schedulingGates"):
        yield from _unique(template, f"/spec/{field}", "name")
    for index, volume in items(template, "/spec/volumes"):
        sources = [key for key, value in volume.items() if key != "name" and value is not None]
        if len(sources) > 1:  # one without a source is an emptyDir, by default
            message = f"volume {text(volume, '/name')} has {len(sources)} sources"
            yield Problem("TW705", f"/spec/volumes/{index}", message, f"keep one of {', '.join(sources)}")
    yield from volume_problems(template)
    yield from starting_problems(template)
    names = {text(container, "/name") for _, container in items(template, "/spec/containers")}
    for field in ("initContainers", "containers"):
        for index, container in items(template, f"/spec/{field}"):
            yield from _container(template, f"/spec/{field}/{index}")
            ends = field == "initContainers" and text(container, "/restartPolicy") != "Always"
            told = _of_its_life(container) if ends else _handlers(container)
            yield from (problem.below(f"/spec/{field}/{index}") for problem in told)
            if field == "initContainers" and text(container, "/name") in names:
                message = f"an init container and a container are both named {text(container, '/name')}"
                yield Problem("TW706", f"/spec/{field}/{index}/name", message, "rename one of the two")


def _container(template: Any, place: str) -> Iterator[Problem]:
    yield from _unique(template, f"{place}/ports", "name")
    yield from _unique(template, f"{place}/volumeMounts", "mountPath")
    for number, mount in items(at(template, place), "/volumeMounts"):
        for field in ("subPath", "subPathExpr"):
            if said := outside(text(mount, f"/{field}")):
                yield Problem("TW705", f"{place}/volumeMounts/{number}/{field}", *said)
    yield from _stated(mapping(template, f"{place}/resources"), f"{place}/resources")


_PROBES, _HOOKS = ("livenessProbe", "readinessProbe", "startupProbe"), ("postStart", "preStop")
_WAYS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
"""Of probes, and of hooks; which of the two has which its schema says."""


def _of_its_life(container: Mapping[str, Any]) -> Iterator[Problem]:
    """An init container ends before anybody could ask how it is (pkg/apis/core/validation, validateInitContainers)."""
    for field in (*_PROBES, "lifecycle"):
        if container.get(field) is not None:
            message = f"an init container that ends cannot have {field}"
            yield Problem("TW705", f"/{field}", message, "remove it: of init containers only a sidecar has it")


def _handlers(container: Mapping[str, Any]) -> Iterator[Problem]:
    """A probe or hook does one thing; what counts as alive or started is the first success."""
    for pointer in (*(f"/{probe}" for probe in _PROBES), *(f"/lifecycle/{hook}" for hook in _HOOKS)):
        handler = at(container, pointer)
        if not isinstance(handler, Mapping):
            continue
        ways = [way for way in _WAYS if handler.get(way) is not None]
        if len(ways) != 1:
            message = f"{pointer} {'does nothing' if not ways else f'does {len(ways)} things: ' + ', '.join(ways)}"
            yield Problem("TW705", pointer, message, "write one of exec, httpGet and tcpSocket")
        threshold = handler.get("successThreshold")
        if pointer in ("/livenessProbe", "/startupProbe") and threshold not in (None, 1):
            message = f"{pointer}/successThreshold is {written(threshold)}, and must be 1"
            yield Problem("TW705", f"{pointer}/successThreshold", message, "remove it")


def reference_problems(template: Any, added: Iterable[str] = ()) -> Iterator[Problem]:
    """What containers name and the pod lacks: volumes, but for those that a controller adds, and claims of devices."""
    volumes = {text(volume, "/name") for _, volume in items(template, "/spec/volumes")} | {*added}
    claims = {text(claim, "/name") for _, claim in items(template, "/spec/resourceClaims")}
    for field in ("initContainers", "containers"):
        for index, container in items(template, f"/spec/{field}"):
            place = f"/spec/{field}/{index}"
            for number, mount in items(container, "/volumeMounts"):
                if (name := text(mount, "/name")) not in volumes:
                    known = ", ".join(sorted(volumes)) or "none"
                    message, fix = f"the pod has no volume {name}", f"add it, or name one of: {known}"
                    yield Problem("TW705", f"{place}/volumeMounts/{number}/name", message, fix)
            for number, claim in items(container, "/resources/claims"):
                if (name := text(claim, "/name")) not in claims:
                    known = ", ".join(sorted(claims)) or "none"
                    message = f"the pod has no resource claim {name}"
                    fix = f"add it to resourceClaims, or name one of: {known}"
                    yield Problem("TW705", f"{place}/resources/claims/{number}/name", message, fix)
            if field == "initContainers" or index:  # an operator adds ports to the first container
                yield from (problem.below(place) for problem in _named_ports(container))


def _named_ports(container: Mapping[str, Any]) -> Iterator[Problem]:
    """A probe finds a port by the name that its own container gives it (pkg/kubelet/prober, ResolveContainerPort)."""
    names = [text(port, "/name") for _, port in items(container, "/ports")]
    for probe in _PROBES:
        for way in ("httpGet", "tcpSocket"):
            place = f"/{probe}/{way}/port"
            if (name := text(container, place)) and not name.isdigit() and name not in names:
                message = f"{probe} asks port {name}, and the container has no port of that name"
                yield Problem("TW713", place, message, "write its number; or add the port to `ports` with that name")


def _keys(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    for field in ("data", "stringData", "binaryData"):
        for key in mapping(manifest, f"/{field}"):
            if reason := not_a_key(key):
                yield Problem("TW705", f"/{field}/{escape(key)}", f"the key {written(key)} {reason}", "write another key")


_PAGES = "hugepages-"


def _is_device(name: str) -> bool:
    return "/" in name and not name.startswith("kubernetes.io/")


def _stated(resources: Mapping[str, Any], place: str) -> Iterator[Problem]:
    """The ``resources`` of a container, or what a TrainJob calls its ``resourcesPerNode``."""
    stated = {field: mapping(resources, f"/{field}") for field in ("requests", "limits")}
    for field, amounts in stated.items():
        yield from _amounts(amounts, f"{place}/{field}")
    requests, limits = ({name: it for name, it in amounts.items() if it is not None} for amounts in stated.values())
    yield from _resources(requests, limits, place)


def _amounts(amounts: Mapping[str, Any], place: str) -> Iterator[Problem]:
    for name, asked in amounts.items():
        pointer, number = f"{place}/{escape(name)}", amount(asked)
        if asked is None:
            given = "the container gets none" if _is_device(name) else "none is set"
            message = f"{name} has no amount: the API server takes the line for one that is not there, and {given}"
            yield Problem("TW714", pointer, message, "write the amount, or remove the line")
        elif _is_device(name) and number is not None and number % 1:
            message = f"the container asks for {written(asked)} of {name}, and devices are whole numbers"
            yield Problem("TW705", pointer, message, "write a whole number; shares of a device have names of their own")


def _resources(requests: Mapping[str, Any], limits: Mapping[str, Any], place: str) -> Iterator[Problem]:
    yield from _huge_pages(requests, limits, place)
    for name, asked in requests.items():
        least, most = amount(asked), amount(limits.get(name))
        pointer = f"{place}/requests/{escape(name)}"
        whole = name.startswith(_PAGES) or _is_device(name)
        if whole and (most is None or least != most):
            limit = "no limit" if most is None else f"a limit of {limits[name]}"
            message = f"the container requests {asked} {name} and has {limit}"
            kept = "huge pages" if name.startswith(_PAGES) else "devices"
            yield Problem("TW705", pointer, message, f"write the same amount in requests and limits: {kept} are not shared")
        elif least is not None and most is not None and least > most:
            message = f"the container requests {asked} {name}, more than its limit of {limits[name]}"
            yield Problem("TW705", pointer, message, "request at most the limit")


def _huge_pages(requests: Mapping[str, Any], limits: Mapping[str, Any], place: str) -> Iterator[Problem]:
    """Whole pages, and never alone: a pod has them beside CPU or memory."""
    stated = [(f"{place}/{field}/{escape(name)}", name, asked) for field, amounts in (("limits", limits), ("requests", requests))
              for name, asked in amounts.items() if name.startswith(_PAGES)]
    for pointer, name, asked in stated:
        size, pages = amount(name.removeprefix(_PAGES)), amount(asked)
        if size and pages is not None and pages % size:
            message = f"{asked} is no whole number of pages of {name.removeprefix(_PAGES)}"
            yield Problem("TW705", pointer, message, f"write a multiple of {name.removeprefix(_PAGES)}")
    if stated and not {"cpu", "memory"} & {*requests, *limits}:
        message = "the container asks for huge pages, and for neither CPU nor memory"
        yield Problem("TW705", stated[0][0], message, "add an amount of cpu or memory")


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
