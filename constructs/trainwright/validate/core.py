"""Kubernetes' own kinds against its own schema, by the JSON schemas that ``kubernetes-validate`` carries for each version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from trainwright.findings.locate import at, escape
from trainwright.manifest.pods import pods_in
from trainwright.objects.fields import items, mapping
from trainwright.objects.problem import Problem, shown, unknown_choice, unknown_field, written
from trainwright.reading.shape import WORDS
from trainwright.validate.core_schemas import definition, schema_of

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
_POD, _JOB = "io.k8s.api.core.v1.PodTemplateSpec", "io.k8s.api.batch.v1.JobTemplateSpec"

_JOB_LISTS = ("/spec/replicatedJobs", "/spec/template/spec/replicatedJobs")
"""Where custom resources hold templates of Jobs: a JobSet, and the JobSet in a TrainingRuntime."""

_REASONS = {
    "pattern": ("does not match the pattern", "write a value that the API allows"),
    "minimum": ("is too small", "write at least {}"),
    "maximum": ("is too large", "write at most {}"),
    "minLength": ("is too short", "write at least {} characters"),
    "maxLength": ("is too long", "write at most {} characters"),
    "minItems": ("has too few items", "write at least {}"),
}
"""Keyword of a schema -> what is wrong with a value that breaks it, and what to write."""


def is_core(api_version: str) -> bool:
    """Whether Kubernetes itself, not a CRD, has the group of an apiVersion."""
    return api_version.rpartition("/")[0] in CORE_GROUPS


def core_problems(manifest: Mapping[str, Any], version: str) -> list[Problem]:
    """What the schema of a version of Kubernetes does not allow in an object of its own kinds, unknown fields included.

    Raises:
        UnknownKindError: the version has no such kind.
    """
    return list(_problems(_of_kind(str(manifest["kind"]), str(manifest["apiVersion"]), version), manifest))


def metadata_structure(metadata: object, version: str, pointer: str = "/metadata") -> list[Problem]:
    """The same for the metadata of an object of any kind, which is at ``pointer``."""
    return list(_problems(_of_definition(_META, version), metadata, pointer))


def part_structure(kind: str, value: object, version: str, pointer: str) -> list[Problem]:
    """The same for a part of a pod, such as a Container or a Volume, which is at ``pointer``."""
    return list(_problems(_of_definition(f"io.k8s.api.core.v1.{kind}", version), value, pointer))


def template_structure(manifest: Mapping[str, Any], version: str) -> Iterator[Problem]:
    """The same for templates of pods and Jobs in an object of any kind: a CRD has their fields, and few of their values."""
    lists = ((owner, index, job) for owner in _JOB_LISTS for index, job in items(manifest, owner))
    jobs = [f"{owner}/{index}/template" for owner, index, job in lists if mapping(job, "/template")]
    for pointer in jobs:
        yield from _problems(_of_definition(_JOB, version), at(manifest, pointer), pointer)
    for found in pods_in(manifest):
        if not found.pointer.startswith(tuple(f"{job}/" for job in jobs)):
            template = {key: found.template[key] for key in ("metadata", "spec") if key in found.template}
            yield from _problems(_of_definition(_POD, version), template, found.pointer.removesuffix("/spec"))


@cache
def _of_kind(kind: str, api_version: str, version: str) -> Any:
    return _validator(schema_of(kind, api_version, version))


@cache
def _of_definition(name: str, version: str) -> Any:
    return _validator(definition(name, version))


def _validator(schema: Mapping[str, Any]) -> Any:
    """Imported late: the import takes 80 ms, and most commands validate no object."""
    import jsonschema  # type: ignore[import-untyped]

    return jsonschema.validators.Draft202012Validator(schema)


def _problems(validator: Any, value: object, above: str = "") -> Iterator[Problem]:
    """The problems of a value that is at ``above`` in its object."""
    for error in sorted(validator.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path]):
        pointer = above + "".join(f"/{escape(str(part))}" for part in error.absolute_path)
        yield from _said(error, pointer)


def _said(error: Any, pointer: str) -> Iterator[Problem]:
    """The problems of one error of jsonschema, in the words of every other check."""
    schema, value = error.schema, error.instance
    if error.validator == "additionalProperties" and isinstance(value, Mapping):
        known = schema.get("properties", {})
        unset = [name for name in known if name not in value]
        yield from (unknown_field(pointer, str(key), unset) for key in value if key not in known)
    elif error.validator == "required":
        missing = next((name for name in error.validator_value if repr(name) in error.message), "")
        yield Problem("TW704", f"{pointer}/{escape(missing)}", f"{shown(pointer)} has no `{missing}`", f"add `{missing}:`")
    elif error.validator in ("type", "oneOf"):
        words = dict.fromkeys(WORDS.get(name, name) for name in _types(schema) if name != "null")
        wanted = " or ".join(words) or "another value"
        yield Problem("TW705", pointer, f"{shown(pointer)} must be {wanted}, not {written(value)}", f"write {wanted}")
    elif error.validator == "enum":
        yield unknown_choice(pointer, value, [str(item) for item in error.validator_value if item])
    else:
        reason, fix = _REASONS.get(error.validator, ("is not allowed", "write a value that the API allows"))
        message = f"{shown(pointer)} is {written(value)}: it {reason} ({error.validator_value})"
        octal = pointer.endswith(("/mode", "/defaultMode")) and re.fullmatch("[0-7]{1,4}", str(value))
        fix = f"write {int(str(value), 8)}, or 0{value} in octal" if octal else fix.format(error.validator_value)
        yield Problem("TW705", pointer, message[:240], fix)


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    types = schema.get("type", ())
    yield from [types] if isinstance(types, str) else types
    for part in schema.get("oneOf", ()):
        yield from _types(part)
