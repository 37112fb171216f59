"""Kubernetes' own kinds against its own schema, by the JSON schemas that ``kubernetes-validate`` carries for each version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from trainwright.locate import escape
from trainwright.shape import closest, literal
from trainwright.validate.problem import Problem

CORE_GROUPS = frozenset(
    (
        "",
        "apps",
        "autoscaling",
        "batch",
        "extensions",
        "policy",
        *(
            f"{name}.k8s.io"
            for name in (
                "admissionregistration",
                "apiextensions",
                "apiregistration",
                "authentication",
                "authorization",
                "certificates",
                "coordination",
                "discovery",
                "events",
                "flowcontrol.apiserver",
                "internal.apiserver",
                "networking",
                "node",
                "rbac.authorization",
                "resource",
                "scheduling",
                "storage",
                "storagemigration",
            )
        ),
    )
)
"""The groups of Kubernetes itself. ``snapshot.storage.k8s.io`` and everything under ``x-k8s.io`` come from CRDs."""

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


class UnknownVersionError(Exception):
    """A Kubernetes version that the library has no schemas for."""


class UnknownKindError(Exception):
    """A kind that this Kubernetes version does not have."""


def is_core(api_version: str) -> bool:
    """Whether Kubernetes itself, not a CRD, has the group of an apiVersion."""
    return api_version.rpartition("/")[0] in CORE_GROUPS


@cache
def versions() -> tuple[str, ...]:
    """Kubernetes versions with schemas, oldest first, such as ``1.34``."""
    from kubernetes_validate.utils import all_versions

    numbers = sorted({tuple(int(part) for part in version.split(".")[:2]) for version in all_versions()})
    return tuple(f"{major}.{minor}" for major, minor in numbers)


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


def core_problems(manifest: Mapping[str, Any], version: str) -> list[Problem]:
    """What the schema of a version of Kubernetes does not allow in an object of its own kinds, unknown fields included.

    Raises:
        UnknownKindError: the version has no such kind.
    """
    return list(_problems(_validator(str(manifest["kind"]), str(manifest["apiVersion"]), version), manifest))


def metadata_structure(metadata: object, version: str) -> list[Problem]:
    """The same for the metadata of an object of any kind."""
    return list(_problems(_definition(_META, version), metadata))


@cache
def _validator(kind: str, api_version: str, version: str) -> Any:
    from kubernetes_validate.utils import schema_contents

    group, _, suffix = api_version.rpartition("/")
    name = "-".join(part for part in (kind.lower(), group.partition(".")[0], suffix) if part)
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise UnknownKindError(name)
    try:
        schema = schema_contents(f"{_folder(version)}/{name}.json", version)
    except FileNotFoundError as error:
        raise UnknownKindError(f"{api_version} {kind}") from error
    known = [(entry["group"], entry["kind"]) for entry in schema.get("x-kubernetes-group-version-kind", ())]
    if known and (group, kind) not in known:  # the file's name keeps a part of the group only, in lower case
        raise UnknownKindError(f"{api_version} {kind}")
    return _over(schema, version)


@cache
def _definition(name: str, version: str) -> Any:
    return _over({"$ref": f"{_definitions(version)['$id']}#/$defs/{name}"}, version)


def _over(schema: Mapping[str, Any], version: str) -> Any:
    import jsonschema  # type: ignore[import-untyped]
    from referencing import Registry, Resource

    definitions = Resource.from_contents(_definitions(version))
    registry: Registry[Any] = definitions @ Registry()
    return jsonschema.validators.Draft202012Validator(schema, registry=registry)


@cache
def _definitions(version: str) -> dict[str, Any]:
    from kubernetes_validate.utils import schema_contents

    from trainwright.validate.core_facts import apply_facts

    definitions: dict[str, Any] = schema_contents(f"{_folder(version)}/_definitions.json", version)
    apply_facts(definitions["$defs"])
    return definitions


@cache
def _folder(version: str) -> str:
    from kubernetes_validate.utils import all_versions

    exact = [known for known in all_versions() if known.rpartition(".")[0] == version or known == version]
    return f"kubernetes-json-schema/v{exact[-1]}-local-strict"


def _problems(validator: Any, value: object) -> Iterator[Problem]:
    for error in sorted(validator.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path]):
        pointer = "".join(f"/{escape(str(part))}" for part in error.absolute_path)
        yield from _said(error, pointer)


def _said(error: Any, pointer: str) -> Iterator[Problem]:
    shown, schema, value = pointer or "the object", error.schema, error.instance
    if error.validator == "additionalProperties" and isinstance(value, Mapping):
        known = list(schema.get("properties", {}))
        for key in (key for key in value if key not in known):
            near = closest(key, [name for name in known if name not in value])
            fix = f"did you mean `{near}`?" if near else "remove it; known fields: " + (", ".join(known[:12]) or "none")
            yield Problem("TW703", f"{pointer}/{escape(str(key))}", f"{shown} has no field `{str(key)[:60]}`", fix)
    elif error.validator == "required":
        missing = next((name for name in error.validator_value if repr(name) in error.message), "")
        yield Problem("TW704", f"{pointer}/{escape(missing)}", f"{shown} has no `{missing}`", f"add `{missing}:`")
    elif error.validator in ("type", "oneOf"):
        wanted = (
            " or ".join(dict.fromkeys(_WORDS.get(name, name) for name in _types(schema) if name != "null")) or "another value"
        )
        yield Problem("TW705", pointer, f"{shown} must be {wanted}, not {_written(value)}", f"write {wanted}")
    elif error.validator == "enum":
        known = [str(item) for item in error.validator_value if item is not None]
        near = closest(value, known) if isinstance(value, str) else None
        fix = f"did you mean {near}? Allowed: {', '.join(known)}" if near else f"write one of {', '.join(known)}"
        yield Problem("TW705", pointer, f"{shown} cannot be {_written(value)}", fix)
    else:
        words = {
            "pattern": "has another form",
            "minimum": "is too small",
            "maximum": "is too large",
            "minLength": "is empty",
            "maxLength": "is too long",
            "minItems": "has too few items",
        }
        message = f"{shown} is {_written(value)}: it {words.get(error.validator, 'is not allowed')} ({error.validator_value})"
        yield Problem("TW705", pointer, message[:240], "write a value that the API allows")


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    types = schema.get("type", ())
    yield from [types] if isinstance(types, str) else types
    for part in schema.get("oneOf", ()):
        yield from _types(part)


def _written(value: object) -> str:
    if isinstance(value, Mapping | list):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    text = f'"{value}"' if isinstance(value, str) else literal(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
