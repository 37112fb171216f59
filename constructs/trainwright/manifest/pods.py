"""Pods in objects, found by their structure: a patch may put one anywhere, and the schema of a kind may not be at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from trainwright.findings.locate import at, escape
from trainwright.objects.fields import items, text

Tree = dict[str, Any]

CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
"""Fields of a pod's spec that hold containers."""

_ANY_CONTAINERS = frozenset(CONTAINER_LISTS)

PARTS = frozenset({"runtimePatches", "podTemplateOverrides", "podSpecOverrides"})
"""Fields that hold parts of pods which are elsewhere: a TrainJob's, of the pods in its runtime, release by release
(kubeflow/trainer, trainjob_types.go)."""


class FoundPod(NamedTuple):
    """A pod template in an object."""

    pointer: str
    """Of the pod's spec."""
    template: Tree
    """With ``spec``, and ``metadata`` where there is some."""

    @property
    def spec(self) -> Tree:
        spec: Tree = self.template["spec"]
        return spec


def pods_in(manifest: Mapping[str, Any]) -> Iterator[FoundPod]:
    """Every pod of an object, at any depth: whatever holds a list of containers is a pod's spec."""
    yield from _below(manifest, None, "")


def _below(node: Any, owner: Mapping[str, Any] | None, pointer: str) -> Iterator[FoundPod]:
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _below(item, None, f"{pointer}/{index}")
    elif isinstance(node, Mapping):
        if _is_pod(node):
            template = owner if owner is not None and pointer.endswith("/spec") else {"spec": node}
            yield FoundPod(pointer, dict(template))
            return
        for key, value in node.items():
            if isinstance(value, dict | list) and key not in PARTS:
                yield from _below(value, node, f"{pointer}/{escape(str(key))}")


def _is_pod(node: Mapping[str, Any]) -> bool:
    if _ANY_CONTAINERS.isdisjoint(node):
        return False
    lists = (node.get(field) for field in CONTAINER_LISTS)
    return any(isinstance(value, list) and any(isinstance(item, Mapping) for item in value) for value in lists)


def containers_of(pod: Mapping[str, Any]) -> Iterator[tuple[str, Tree]]:
    """Every container of a pod's spec, with its pointer there."""
    for field in CONTAINER_LISTS:
        for number, container in enumerate(pod.get(field) or []):
            yield f"/{field}/{number}", container


def mounted_volumes(pod: Mapping[str, Any]) -> set[str]:
    """Names of the volumes of a pod's spec that one of its containers mounts."""
    return {text(mount, "/name") for _, one in containers_of(pod) for _, mount in items(one, "/volumeMounts")}


def images_outside(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Pointer and reference of each image that an object names outside of its pods: a controller makes a container of it."""
    yield from _images(manifest, "", _is_pod)


def _images(node: Any, pointer: str, skip: Callable[[Mapping[str, Any]], bool]) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping) and skip(node):
        return
    for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
        if key == "image" and isinstance(value, str):
            if not pointer.endswith(("/labels", "/annotations", "/data")):
                yield f"{pointer}/image", value
        elif isinstance(value, dict | list):
            yield from _images(value, f"{pointer}/{escape(str(key))}", _nothing if key in PARTS else skip)


def _nothing(node: Mapping[str, Any]) -> bool:
    """Parts of pods are no pods."""
    return False


def image_volumes(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Reference of each volume of a pod that is an image, with its pointer in the pod's spec."""
    for number, volume in enumerate(pod.get("volumes") or []):
        reference = at(volume, "/image/reference")
        if isinstance(reference, str):
            yield f"/volumes/{number}/image/reference", reference
