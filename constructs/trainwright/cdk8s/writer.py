"""Manifests to files, through cdk8s: the only writer of ``dist/``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from cdk8s import ApiObject, ApiObjectMetadata, App, Chart, JsonPatch

from trainwright.manifest.key import object_key
from trainwright.manifest.plain import problems

EXTENSION = ".k8s.yaml"

Manifest = Mapping[str, Any]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""File names that cdk8s keeps as they are; it puts a hash into others."""


def write_files(files: Mapping[str, Sequence[Manifest]], outdir: Path) -> None:
    """Write each file's manifests below ``outdir``, in the order given, keys included.

    Keys of ``files`` are relative paths with forward slashes that end with ``.k8s.yaml``; the first folder names the cluster, in
    which an object may exist once. Files with other names are left alone. The one order that does not hold: JavaScript puts
    keys that are whole numbers first.

    Raises:
        ValueError: naming file and pointer, for what cdk8s would not carry over unchanged. Nothing is written then.
        OSError: where the disk refuses.
    """
    _refuse_duplicates(files)
    folders: dict[str, list[str]] = {}
    for path, manifests in files.items():
        _check(path, manifests)
        folders.setdefault(str(PurePosixPath(path).parent), []).append(path)
    for folder, paths in folders.items():
        directory = (outdir / folder).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        app = App(outdir=str(directory), record_construct_metadata=False)
        for path in paths:
            _chart(app, PurePosixPath(path).name.removesuffix(EXTENSION), files[path])
        try:
            app.synth()
        except RuntimeError as error:
            raise OSError(f"cdk8s could not write to {directory}: {str(error).partition(chr(10))[0]}") from error


def _chart(app: App, name: str, manifests: Sequence[Manifest]) -> None:
    chart = Chart(app, name)
    for index, manifest in enumerate(manifests):
        metadata = ApiObjectMetadata(name=manifest["metadata"]["name"])
        item = ApiObject(chart, str(index), api_version=manifest["apiVersion"], kind=manifest["kind"], metadata=metadata)
        # One patch of the whole document: unlike props, a patch's content is neither sorted nor filtered.
        item.add_json_patch(JsonPatch.add("", manifest))


def _check(path: str, manifests: Sequence[Manifest]) -> None:
    """A path that cdk8s keeps, and manifests that arrive as they are."""
    parts = PurePosixPath(path).parts
    name = parts[-1] if parts else ""
    if path != "/".join(parts) or path.startswith("/") or ".." in parts:
        raise ValueError(f"{path!r} is not a relative path below the output folder")
    if not name.endswith(EXTENSION) or not _NAME.fullmatch(name.removesuffix(EXTENSION)):
        raise ValueError(f"{path}: a file name is up to 63 lower case letters, digits and dashes, and {EXTENSION}")
    if not manifests:
        raise ValueError(f"{path}: a file needs at least one object")
    for manifest in manifests:
        for pointer, reason in problems(manifest):
            raise ValueError(f"{path}: {manifest['kind']} {manifest['metadata']['name']}: {pointer or 'the object'} {reason}")


def _refuse_duplicates(files: Mapping[str, Sequence[Manifest]]) -> None:
    """cdk8s writes two objects of one name without a word, and the one that is applied last wins."""
    seen: dict[tuple[str, ...], str] = {}
    for path, manifests in files.items():
        cluster = path.partition("/")[0] if "/" in path else ""
        for index, manifest in enumerate(manifests):
            group, kind, namespace, name = _identity(path, index, manifest)
            key = (cluster, group, kind, namespace, name)
            if key in seen:
                raise ValueError(f"{path}: {kind} {name} is in {seen[key]} already")
            seen[key] = path


def _identity(path: str, index: int, manifest: Manifest) -> tuple[str, str, str, str]:
    """Group, kind, namespace and name, as far as a manifest states them."""
    metadata = manifest.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    stated = {"/apiVersion": manifest.get("apiVersion"), "/kind": manifest.get("kind"), "/metadata/name": named.get("name")}
    for pointer, value in stated.items():
        if not isinstance(value, str) or not value:
            raise ValueError(f"{path}: object {index} has no {pointer}")
    return object_key(manifest)
