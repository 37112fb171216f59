"""CustomResourceDefinitions from a folder: which kinds they define, in which versions, with which schema."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.manifest.kinds import GroupKind
from trainwright.reading.scalar import ScalarError, read_scalar

Schema = Mapping[str, Any]
"""A structural schema, as it is in the CRD: kubernetes.io, "Specifying a structural schema"."""

SUFFIXES = frozenset((".yaml", ".yml", ".json"))
LARGEST = 64 * 2**20
"""In bytes. The largest upstream CRD has 1.4 MB; a list of all CRDs of a cluster has more."""


_SHAPES: dict[str, tuple[type, str]] = {
    "type": (str, "text"),
    "format": (str, "text"),
    "pattern": (str, "text"),
    "properties": (dict, "a mapping"),
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf", "x-kubernetes-list-map-keys"), (list, "a list")),
    "x-kubernetes-validations": (list, "a list"),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), (int, "a number")),
}
"""Keyword -> its type, and the word for it."""


@dataclass(frozen=True, slots=True)
class Version:
    name: str
    served: bool
    schema: Schema
    drops_status: bool
    """With a status subresource the API server drops ``status`` from what a user creates."""


@dataclass(frozen=True, slots=True)
class Crd:
    file: str
    name: str
    """The CRD's own name, such as ``jobsets.jobset.x-k8s.io``."""
    key: GroupKind
    """Of the objects that it defines."""
    namespaced: bool
    versions: Mapping[str, Version]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The CRDs of a folder, by the kind that they define, and what is wrong with the others."""

    crds: Mapping[GroupKind, Crd] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def load_catalogue(folder: Path, groups: Collection[str] | None = None) -> Catalogue:
    """The CRDs below a folder; only those of the given groups, where there are any, since reading the others takes time."""
    crds: dict[GroupKind, Crd] = {}
    findings: list[Finding] = []
    for path in sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
        for item in _read(path, groups):
            if isinstance(item, Finding):
                findings.append(item)
                continue
            known = crds.setdefault(item.key, item)
            if known is not item and known.versions != item.versions:
                message = f"{item.key.kind} of {item.key.group} is defined here and in {known.file}, in different ways"
                findings.append(_unusable(path, message, "keep the definition that the cluster has"))
    return Catalogue(crds, tuple(findings))


def _read(path: Path, groups: Collection[str] | None) -> Iterator[Crd | Finding]:
    try:
        if path.stat().st_size > LARGEST:
            yield _unusable(path, "the file is larger than 64 MiB", "check that this is the right file")
            return
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        yield _unusable(path, f"the file cannot be read: {error}", "check that it is a text file and that you may read it")
        return
    if "CustomResourceDefinition" not in text or (groups is not None and not any(group in text for group in groups)):
        return
    try:
        documents = list(_documents(text))
    except Exception as error:  # libyaml and PyYAML raise several kinds, and a tag may ask for anything
        message = f"the file is not YAML: {' '.join(str(error).split())[:200]}"
        yield _unusable(path, message, "fetch it again with `trainwright crds`")
        return
    for document in documents:
        for item in _items(document):  # `kubectl get crds -o yaml` prints a List
            if isinstance(item, Mapping) and item.get("kind") == "CustomResourceDefinition":
                yield _crd(path, item)


def _items(document: Any) -> list[Any]:
    listed = document.get("items") if isinstance(document, Mapping) and document.get("kind") == "List" else None
    return listed if isinstance(listed, list) else [document]


def _crd(path: Path, document: Mapping[str, Any]) -> Crd | Finding:
    if document.get("apiVersion") != "apiextensions.k8s.io/v1":
        shown = document.get("apiVersion")
        fix = "fetch one of apiextensions.k8s.io/v1, as with `trainwright crds`"
        return _unusable(path, f"a CustomResourceDefinition of {shown} cannot be used", fix)
    try:
        spec = document["spec"]
        versions = {entry["name"]: _version(entry) for entry in spec["versions"]}
        key = GroupKind(str(spec["group"]), str(spec["names"]["kind"]))
        return Crd(str(path), str(document["metadata"]["name"]), key, spec["scope"] == "Namespaced", versions)
    except (KeyError, TypeError, AttributeError) as error:
        fix = "fetch it again with `trainwright crds`"
        return _unusable(path, f"the CustomResourceDefinition is not complete: {error!r}", fix)


def _version(entry: Mapping[str, Any]) -> Version:
    schema = entry["schema"]["openAPIV3Schema"]
    _check(schema)
    return Version(entry["name"], bool(entry["served"]), schema, "status" in entry.get("subresources", {}))


def _check(schema: Any) -> None:
    """Whatever reads a schema later may count on its shape.

    Raises:
        TypeError: a keyword has another type than it has in every CRD that a cluster takes.
    """
    for key, (kind, word) in _SHAPES.items():
        if not isinstance(schema.get(key, kind()), kind):
            raise TypeError(f"{key} is not {word}")
    for below in schema.get("properties", {}).values():
        _check(below)
    for key in ("items", "not", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            _check(schema[key])
        elif schema.get(key) is not None and not (key == "additionalProperties" and isinstance(schema[key], bool)):
            raise TypeError(f"{key} is not a schema")
    for key in ("allOf", "anyOf", "oneOf"):
        for below in schema.get(key, ()):
            _check(below)
    for rule in schema.get("x-kubernetes-validations", ()):
        if not isinstance(rule["rule"], str):
            raise TypeError("a rule is not text")


def _unusable(path: Path, message: str, fix: str) -> Finding:
    return found("TW710", Where(file=str(path)), message, fix)


def _documents(text: str) -> Iterator[Any]:
    """The documents of a YAML text, read by libyaml: CRDs have megabytes, and no finding needs a line in them."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # a wheel without libyaml is slow, and right
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own are YAML 1.1's

    def scalar(loader: Any, node: Any) -> Any:
        try:
            return node.value if node.style else read_scalar(node.value)
        except ScalarError:  # a bound such as 2^63 - 1 is a number here: nothing is written to JSON
            return int(node.value) if re.fullmatch(r"[-+]?[0-9]{1,20}", node.value) else node.value

    Loader.add_constructor("tag:yaml.org,2002:str", scalar)
    yield from yaml.load_all(text, Loader=Loader)  # derived from the safe loader
