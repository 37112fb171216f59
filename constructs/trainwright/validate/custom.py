"""A custom resource against its CRD, in the order of the API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.objects.problem import Problem
from trainwright.operators.operator import defaults
from trainwright.validate.admission import admitted, field_schema, unknown_fields
from trainwright.validate.cel_rules import rule_problems
from trainwright.validate.core import is_core, metadata_structure
from trainwright.validate.crd import Crd, Schema, Version
from trainwright.validate.structure import list_problems, structure_problems

STRUCTURAL = frozenset(("TW704", "TW705", "TW706"))


def served_version(manifest: Mapping[str, Any], crd: Crd) -> Version | Problem:
    """The version that a manifest asks for, or why it cannot have it."""
    wanted = str(manifest["apiVersion"]).rpartition("/")[2]
    version = crd.versions.get(wanted)
    if version is not None and version.served:
        return version
    served = [f"{crd.key.group}/{version.name}" for version in crd.versions.values() if version.served]
    reason = "has no version" if version is None else "is not served in version"
    message = f"{crd.key.kind} of {crd.key.group} {reason} {wanted} ({crd.file})"
    return Problem("TW701", "/apiVersion", message, f"write {' or '.join(served) or 'another kind'}")


def custom_problems(manifest: Mapping[str, Any], version: Version, kubernetes: str) -> tuple[list[Problem], Any]:
    """What the API server refuses in a custom resource, and the resource as it would be admitted, with its defaults and those of
    its operator's webhook, which come before validation.

    Rules are evaluated on what is valid in structure, as the API server does it.
    """
    schema = version.schema
    problems = list(unknown_fields(manifest, schema))
    resource = defaults(admitted(manifest, schema))
    if version.drops_status:
        resource.pop("status", None)
    problems += metadata_structure(manifest.get("metadata"), kubernetes)
    problems += structure_problems(resource, schema)
    problems += list_problems(resource, schema)
    problems += _embedded(resource, schema, kubernetes)
    if not any(problem.code in STRUCTURAL for problem in problems):
        problems += rule_problems(resource, schema)
    return list(dict.fromkeys(problems)), resource


def _embedded(value: Any, schema: Schema | None, kubernetes: str, pointer: str = "") -> Iterator[Problem]:
    """Objects inside the object (x-kubernetes-embedded-resource) have a kind and metadata of their own."""
    if isinstance(value, Mapping):
        if schema is not None and schema.get("x-kubernetes-embedded-resource"):
            for key in ("apiVersion", "kind"):
                if not isinstance(value.get(key), str) or not value[key]:
                    yield Problem("TW704", f"{pointer}/{key}", f"{pointer} has no `{key}`", f"add `{key}:`")
            if "metadata" in value:
                yield from metadata_structure(value["metadata"], kubernetes, f"{pointer}/metadata")
        for key, item in value.items():
            yield from _embedded(item, field_schema(schema, key), kubernetes, f"{pointer}/{escape(key)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _embedded(item, (schema or {}).get("items"), kubernetes, f"{pointer}/{index}")


def completed(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """After its operator's mutating webhook; one of a core kind as it is, since the rows about it are on what is stated."""
    return manifest if is_core(str(manifest["apiVersion"])) else defaults(manifest)
