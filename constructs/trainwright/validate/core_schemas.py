"""The JSON schemas of Kubernetes' own kinds, version by version: data of the package ``kubernetes-validate``.

Its files are read where they lie: importing it would import jsonschema too, and take a tenth of a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainwright.validate.core_facts import apply_facts


class UnknownVersionError(Exception):
    """A Kubernetes version that the library has no schemas for."""


class UnknownKindError(Exception):
    """A kind that this Kubernetes version does not have."""


@cache
def versions() -> tuple[str, ...]:
    """Kubernetes versions with schemas, oldest first, such as ``1.34``."""
    return tuple(_folders())


def known_version(version: str | None) -> str:
    """A version such as ``1.34`` or ``v1.34.2`` as the library knows it; the newest for None.

    Raises:
        UnknownVersionError: it has no schemas.
    """
    if version is None:
        return versions()[-1]
    match = re.fullmatch(r"v?(\d+\.\d+)(\.\d+)?", version)
    if match is None or match[1] not in versions():
        raise UnknownVersionError(f"there are no schemas of Kubernetes {version}; there are those of {', '.join(versions())}")
    return match[1]


@cache
def schema_of(kind: str, api_version: str, version: str) -> Mapping[str, Any]:
    """The schema of a kind, which refers to :func:`definitions`.

    Raises:
        UnknownKindError: the version has no such kind.
    """
    group, _, suffix = api_version.rpartition("/")
    name = "-".join(part for part in (kind.lower(), group.partition(".")[0], suffix) if part)
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise UnknownKindError(name)
    try:
        schema = _read(version, name)
    except FileNotFoundError as error:
        raise UnknownKindError(f"{api_version} {kind}") from error
    known = [(entry["group"], entry["kind"]) for entry in schema.get("x-kubernetes-group-version-kind", ())]
    if known and (group, kind) not in known:  # the file's name keeps a part of the group only, in lower case
        raise UnknownKindError(f"{api_version} {kind}")
    return schema


@cache
def definitions(version: str) -> dict[str, Any]:
    """What the schemas of a version refer to, under ``$defs``, with the facts that the published schemas leave out."""
    read = _read(version, "_definitions")
    apply_facts(read["$defs"])
    return read


def _read(version: str, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_folders()[version] / f"{name}.json").read_bytes())
    return content


@cache
def _folders() -> dict[str, Path]:
    """Version -> folder of its schemas, which allow no unknown fields."""
    package = find_spec("kubernetes_validate")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("kubernetes-validate is not installed", name="kubernetes_validate")
    folders = {}
    for folder in (Path(package.origin).parent / "kubernetes-json-schema").iterdir():
        if match := re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)-local-strict", folder.name):
            folders[int(match[1]), int(match[2]), int(match[3])] = folder
    return {f"{major}.{minor}": folder for (major, minor, _), folder in sorted(folders.items())}
