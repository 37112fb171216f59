"""Volumes of a pod that the API server refuses, though their schemas allow them (pkg/apis/core/validation)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, text
from trainwright.objects.problem import Problem, written

_OF_A_POD = re.compile(r"metadata\.(?:name|namespace|uid|labels|annotations|(?:labels|annotations)\['.+'\])")
"""Fields that a file can hold (validVolumeDownwardAPIFieldPathExpressions); variables have others."""

_ONE_OF = "metadata.name, metadata.namespace, metadata.uid, metadata.labels or metadata.annotations"


def volume_problems(template: Any) -> Iterator[Problem]:
    """What keeps a pod with these volumes from being made."""
    for index, volume in items(template, "/spec/volumes"):
        yield from (problem.below(f"/spec/volumes/{index}") for problem in _volume(volume))


def _volume(volume: Mapping[str, Any]) -> Iterator[Problem]:
    path = text(volume, "/hostPath/path")
    if ".." in path.split("/"):
        message = f"volume {text(volume, '/name')} is {path} of the node, and a path there cannot hold '..'"
        yield Problem("TW705", "/hostPath/path", message, "write the path that is meant")
    for kind in _OF_FILES:
        yield from _outside(volume, f"/{kind}/items")
    yield from _fields(volume, "/downwardAPI/items")
    first: dict[str, str] = {}
    for number, source in items(volume, "/projected/sources"):
        place = f"/projected/sources/{number}"
        for kind in _OF_FILES:
            yield from (problem.below(place) for problem in _outside(source, f"/{kind}/items"))
        yield from _fields(source, "/downwardAPI/items", place)
        for pointer, file in _files(source, place):
            if first.setdefault(file, pointer) != pointer:
                message = f"two sources of volume {text(volume, '/name')} write the file {written(file)}"
                yield Problem("TW705", pointer, message, "give one of them another path")


_OF_FILES = ("configMap", "secret", "downwardAPI")


def _outside(owner: Mapping[str, Any], pointer: str) -> Iterator[Problem]:
    """Files of a volume lie in it (validateLocalNonReservedPath)."""
    for number, item in items(owner, pointer):
        if said := outside(text(item, "/path")):
            yield Problem("TW705", f"{pointer}/{number}/path", *said)


def outside(path: str) -> tuple[str, str] | None:
    """Message and fix for a path that is not one in a volume."""
    if path.startswith("/"):
        return f"{written(path)} is a path in a volume, and cannot begin with a slash", f"write {written(path.lstrip('/'))}"
    if ".." in path.split("/"):
        return f"{written(path)} is a path in a volume, and cannot hold '..'", "write the path that is meant"
    return None


def _files(source: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """Pointer and path of each file that a source names itself; of a token the API server does not compare it."""
    for kind in ("secret", "configMap", "downwardAPI"):
        for number, item in items(source, f"/{kind}/items"):
            if path := text(item, "/path"):
                yield f"{place}/{kind}/items/{number}/path", path
    if path := text(mapping(source, "/clusterTrustBundle"), "/path"):
        yield f"{place}/clusterTrustBundle/path", path


def _fields(owner: Mapping[str, Any], pointer: str, above: str = "") -> Iterator[Problem]:
    for number, item in items(owner, pointer):
        field = at(item, "/fieldRef/fieldPath")
        if isinstance(field, str) and not _OF_A_POD.fullmatch(field):
            message = f"a file cannot hold {written(field)}, only fields of the pod's metadata"
            fix = f"write {_ONE_OF}; or a variable under env"
            yield Problem("TW705", f"{above}{pointer}/{number}/fieldRef/fieldPath", message, fix)
