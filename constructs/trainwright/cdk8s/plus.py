"""Containers and volumes of cdk8s-plus in the pods of a run.

No release of that package is named here, and none is imported: an object is known by its name in jsii, and a pod of its own
module says what Kubernetes would get. That is what a run can write itself, and it is held to the same rules.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from cdk8s import ApiObject, App, Chart
from constructs import Node

from trainwright.findings import CompileError
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator, escape
from trainwright.run import ClaimMount

_JSII_NAME = re.compile(r"cdk8s-plus-[0-9]+\.(Container|Volume)")

_OF_ITS_OWN = ("emptyDir", "ephemeral", "csi")
"""Volumes of which two in one pod are two things. What any other names, such as a Secret, is the same everywhere."""


class ContainerOfPlus(Protocol):
    """``Container`` of any release of cdk8s-plus."""

    @property
    def name(self) -> str: ...
    @property
    def image(self) -> str: ...
    @property
    def mounts(self) -> Sequence[Any]: ...


class VolumeOfPlus(Protocol):
    """``Volume`` of any release of cdk8s-plus."""

    @property
    def name(self) -> str: ...
    @property
    def node(self) -> Node: ...


@dataclass(frozen=True, slots=True)
class Placed:
    """A container of cdk8s-plus, and how it stands in the pods of a run. It is read when the run's construct is made."""

    container: ContainerOfPlus
    kind: Literal["init", "sidecar", "beside"]
    ends_itself: bool
    roles: Sequence[str]


def init(container: ContainerOfPlus, *, roles: Sequence[str] = ()) -> Placed:
    """It ends before the work begins."""
    return Placed(container, "init", False, roles)


def sidecar(container: ContainerOfPlus, *, roles: Sequence[str] = ()) -> Placed:
    """It starts before the work, and Kubernetes ends it after."""
    return Placed(container, "sidecar", False, roles)


def beside(container: ContainerOfPlus, *, ends_itself: bool, roles: Sequence[str] = ()) -> Placed:
    """It starts with the work, and has to end by itself: the pod would never be complete otherwise."""
    return Placed(container, "beside", ends_itself, roles)


def without_plus(fields: Mapping[str, Any], locate: Locator) -> dict[str, Any]:
    """The fields of a run with what Kubernetes writes in place of objects of cdk8s-plus.

    Raises:
        CompileError: where cdk8s-plus refuses an object, or nothing says how a container stands in the pod.
    """
    plain, reader = dict(fields), _Reader(locate)
    if isinstance(mounts := fields.get("mounts"), Mapping):
        plain["mounts"] = {path: reader.mount(path, mount) for path, mount in mounts.items()}
    if isinstance(containers := fields.get("containers"), list | tuple):
        plain["containers"] = [reader.container(number, one) for number, one in enumerate(containers)]
    return plain


class _Reader:
    """Reads the objects of one run, and remembers where their volumes are: the same object is the same volume."""

    def __init__(self, locate: Locator) -> None:
        self._locate = locate
        self._paths: dict[str, str] = {}
        """Address of a volume in its tree of constructs, or name of a claim -> the first path at which the run mounts it."""
        self._owners: dict[str, str] = {}
        """Address of a volume -> the container that has it for itself."""

    def mount(self, path: str, mount: Any) -> Any:
        """A mount of the run: a volume, or a mapping with one under ``volume``."""
        options = dict(mount) if isinstance(mount, Mapping) else {}
        volume = options.pop("volume", None) if options else mount
        if _is(volume, "Volume"):
            self._paths.setdefault(volume.node.addr, path)
            mount = self._of_volume(volume, options, f"/mounts/{escape(str(path))}")
        claim = mount.claim if isinstance(mount, ClaimMount) else mount.get("claim") if isinstance(mount, Mapping) else None
        if isinstance(claim, str):
            self._paths.setdefault(claim, path)
        return mount

    def _of_volume(self, volume: Any, options: dict[str, Any], pointer: str) -> dict[str, Any]:
        """A claim is one in the words of a run too, which know more of it."""
        holder = _module(volume).Container(image="none")
        holder.mount("/mounted", volume)
        _, (named,) = self._rendered(holder, pointer)
        source = {key: value for key, value in named.items() if key != "name"}
        claim = source.get("persistentVolumeClaim")
        if claim is None:
            return {**options, "volume": source}
        return {"read_only": bool(claim.get("readOnly")), **options, "claim": claim["claimName"]}

    def container(self, number: int, one: Any) -> Any:
        """One of the run's containers."""
        pointer = f"/containers/{number}"
        if _is(one, "Container"):
            message = f"container {one.name} is of cdk8s-plus, and nothing says how it stands in the pod"
            fix = "write init(container), sidecar(container) or beside(container, ends_itself=True), of trainwright.cdk8s"
            raise self._refused(pointer, message, fix)
        if not isinstance(one, Placed):
            return one
        if not _is(one.container, "Container"):
            message = f"{one.kind} is given a {type(one.container).__name__}, which is no Container of cdk8s-plus"
            fix = 'pass one; a dictionary is written as {"kind": "sidecar", "container": {…}}'
            raise self._refused(pointer, message, fix)
        container, volumes = self._rendered(one.container, pointer)
        addresses = {mount.volume.name: mount.volume.node.addr for mount in one.container.mounts}
        return {
            "kind": one.kind,
            "container": container,
            "volumes": [self._volume(volume, addresses[volume["name"]], one.container.name, pointer) for volume in volumes],
            "ends_itself": one.ends_itself,
            "roles": list(one.roles),
        }

    def _volume(self, volume: dict[str, Any], address: str, container: str, pointer: str) -> dict[str, Any]:
        """A volume of a container: shared where the run mounts it, or the claim that it is."""
        name, claim = volume["name"], volume.get("persistentVolumeClaim") or {}
        path = self._paths.get(address) or self._paths.get(claim.get("claimName", ""))
        if path is not None:
            return {"name": name, "same_as": path}
        other = self._owners.setdefault(address, container)
        if other != container and any(kind in volume for kind in _OF_ITS_OWN):
            message = f"containers {other} and {container} mount one volume, {name}, and each would have one of its own"
            fix = 'add it to mounts of the run, as in mounts={"/scratch": volume}: then it is shared'
            raise self._refused(pointer, message, fix)
        return volume

    def _rendered(self, container: Any, pointer: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The container and its volumes, as a pod of its own release would have them."""
        try:
            pod = _module(container).Pod(Chart(App(), "scratch"), "pod")
            pod.attach_container(container)
            spec = ApiObject.of(pod).to_json()["spec"]
        except RuntimeError as error:
            reason = str(error).partition("\n")[0].rpartition("Error: ")[2]
            message = f"cdk8s-plus refuses it: {reason}"
            raise self._refused(pointer, message, "correct the container or its mounts") from None
        return spec["containers"][0], spec.get("volumes") or []

    def _refused(self, pointer: str, message: str, fix: str) -> CompileError:
        return CompileError([found("TW107", self._locate.run(pointer), message, fix)])


def _is(value: object, kind: str) -> bool:
    match = _JSII_NAME.fullmatch(str(getattr(type(value), "__jsii_type__", "")))
    return match is not None and match[1] == kind


def _module(value: object) -> Any:
    """The module that an object of cdk8s-plus, or of a class derived from one of its own, comes from."""
    return sys.modules[next(base for base in type(value).__mro__ if "__jsii_type__" in vars(base)).__module__]
