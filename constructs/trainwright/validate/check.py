"""Validates objects, in files or not: which check applies to each, and what is left unchecked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from trainwright.findings import Finding, Severity
from trainwright.findings.codes import found
from trainwright.findings.locate import at
from trainwright.manifest.kinds import GroupKind
from trainwright.objects.fields import text
from trainwright.objects.metadata import identity_problems, metadata_problems, with_generated_name
from trainwright.objects.problem import Problem
from trainwright.operators.rows import NOTHING, Given, refusals
from trainwright.units import counted
from trainwright.validate.admission import unknown_fields
from trainwright.validate.claims import claims_that_go
from trainwright.validate.core import core_problems, is_core, metadata_structure, template_structure
from trainwright.validate.core_schemas import UnknownKindError, known_version, versions_with
from trainwright.validate.crd import Catalogue, load_catalogue
from trainwright.validate.custom import STRUCTURAL, completed, custom_problems, served_version
from trainwright.validate.field_names import named
from trainwright.validate.groups import nobody_serves
from trainwright.validate.manifests import Manifest, files_below, read_manifests
from trainwright.validate.pods import pod_problems
from trainwright.validate.programs import program_findings
from trainwright.validate.tools import parts_of, tool_of


class CheckedBy(Enum):
    """What the fields of an object were held against."""

    SCHEMA = "schema"
    NAMES = "names"
    """Those of an operator's release that is known here: no types, no required fields."""
    NOTHING = "nothing"


@dataclass(slots=True)
class Report:
    """What a validation found."""

    objects: int = 0
    findings: list[Finding] = field(default_factory=list)
    unchecked: dict[str, int] = field(default_factory=dict)
    """Kind, as ``group/version Kind`` -> number of objects for which there was no schema."""
    by_name: dict[str, int] = field(default_factory=dict)
    """The same of kinds of whose fields only the names are known."""

    @property
    def errors(self) -> int:
        return sum(finding.severity is Severity.ERROR for finding in self.findings)


def newest(_: Path) -> None:
    """Choose the newest version that has schemas, whatever the file."""


def nowhere(_: Path) -> bool:
    """No file is one that Argo CD syncs."""
    return False


def validate_files(
    paths: Iterable[Path],
    crds: Path | None,
    version_for: Callable[[Path], str | None] = newest,
    synced: Callable[[Path], bool] = nowhere,
) -> Report:
    """Everything that the API server or an operator would refuse in the objects of some files.

    Args:
        paths: files, or folders whose YAML and JSON files are read.
        crds: a folder with CustomResourceDefinitions, at any depth; without one, custom resources are reported as not validated.
        version_for: the version of the cluster that a file is for, such as ``1.34``; None for the newest that there are.
        synced: whether Argo CD syncs a file; elsewhere an object may leave its name to the API server.

    Raises:
        UnknownVersionError: there are no schemas of that version.
    """
    manifests: list[tuple[Manifest, str]] = []
    findings: list[Finding] = []
    files = {path: read_manifests(path) for path in files_below(paths)}
    kustomizations = (it for read, _ in files.values() for it in read if tool_of(it) == "kustomize")
    parts = {part for it in kustomizations for part in parts_of(it)}
    for path, (read, refused) in files.items():
        if parts and path.resolve() in parts:
            continue
        version = known_version(version_for(path))
        manifests += [(manifest, version) for manifest in read]
        findings += refused
    catalogue = load_catalogue(crds, _groups([manifest for manifest, _ in manifests])) if crds else Catalogue()
    report = check_manifests(manifests, catalogue, synced)
    report.findings = _in_order([*findings, *catalogue.findings, *report.findings])
    return report


def _groups(manifests: Sequence[Manifest]) -> frozenset[str]:
    """The groups that CRDs are needed of."""
    versions = (manifest.data.get("apiVersion") for manifest in manifests)
    groups = (version.rpartition("/")[0] for version in versions if isinstance(version, str))
    return frozenset(group for group in groups if "." in group)


def _in_order(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.where.file or "", finding.where.line or 0, finding.where.column or 0))


def check_manifests(
    manifests: Iterable[tuple[Manifest, str]], catalogue: Catalogue, synced: Callable[[Path], bool] = nowhere
) -> Report:
    """Every object of ``manifests`` against its schema and its operator's rules.

    Args:
        manifests: objects with their places, and the version of the cluster that each is for, as
            :func:`~trainwright.validate.core_schemas.known_version` gave it.
        catalogue: the CRDs that there are.
        synced: whether Argo CD syncs a file.
    """
    report = Report()
    manifests = list(manifests)
    given: dict[tuple[str, str], list[Any]] = {}
    for manifest, _ in manifests:
        given.setdefault((text(manifest.data, "/kind"), text(manifest.data, "/metadata/name")), []).append(manifest.data)
    first: dict[str, Manifest] = {}
    read_by: dict[str, list[Manifest]] = {}
    sound: list[Manifest] = []
    for manifest, kubernetes in manifests:
        if tool := tool_of(manifest):
            read_by.setdefault(tool, []).append(manifest)
            continue
        report.objects += 1
        data: Mapping[str, Any] = manifest.data
        if not synced(Path(manifest.document.file)) or at(data, _HOOK):
            data = with_generated_name(data)
        problems = list(identity_problems(data))
        if not problems:
            sound.append(manifest)
            problems, by = object_problems(data, catalogue, kubernetes, given)
            if data is not manifest.data:
                problems = [_GENERATED, *problems]
            if by is not CheckedBy.SCHEMA:
                counts = report.by_name if by is CheckedBy.NAMES else report.unchecked
                kind = f"{data['apiVersion']} {data['kind']}"
                counts[kind] = counts.get(kind, 0) + 1
                first.setdefault(kind, manifest)
        report.findings += [found(it.code, manifest.where(it.pointer), it.message, it.fix) for it in problems]
    report.findings += program_findings(sound)
    report.findings += [_for_a_tool(tool, files) for tool, files in read_by.items()]
    report.findings += [_unchecked(kind, count, first[kind]) for kind, count in report.unchecked.items()]
    if report.by_name:
        report.findings.append(_by_name_only(report.by_name, first[next(iter(report.by_name))]))
    return report


def object_problems(
    manifest: Mapping[str, Any], catalogue: Catalogue, kubernetes: str, given: Given = NOTHING
) -> tuple[list[Problem], CheckedBy]:
    """The problems of one object that has a kind and a name, and what its fields were held against.

    Everything that can be said is said at once, but for what follows from a value that is wrong or missing itself.
    """
    crd = catalogue.crds.get(GroupKind.of(manifest))
    core = is_core(str(manifest["apiVersion"]))
    resource: Mapping[str, Any] = manifest
    by = CheckedBy.SCHEMA
    if crd is not None:
        version = served_version(manifest, crd)
        if isinstance(version, Problem):
            return [version], by
        problems, resource = custom_problems(manifest, version, kubernetes)
    elif core:
        try:
            problems = core_problems(manifest, kubernetes)
        except UnknownKindError:
            message = f"Kubernetes {kubernetes} has no {manifest['apiVersion']} {manifest['kind']}"
            named = " or ".join(versions_with(str(manifest["kind"]), kubernetes))
            fix = f"write {named}" if named else "write a kind and version that `kubectl api-resources` lists"
            return [Problem("TW701", "/kind", message, fix)], by
    elif unserved := list(nobody_serves(str(manifest["apiVersion"]), str(manifest["kind"]), kubernetes)):
        return unserved, by
    else:
        problems, by = _by_name(manifest, kubernetes)
    if not core:  # fields are not looked at: what holds containers may be more than a pod, such as a Prometheus
        told = {(problem.code, problem.pointer) for problem in problems}
        values = (problem for problem in template_structure(resource, kubernetes) if problem.code != "TW703")
        problems += [problem for problem in values if (problem.code, problem.pointer) not in told]
    beyond = [*pod_problems(manifest), *metadata_problems(manifest, crd.namespaced if crd else None)]
    refused = list(refusals(completed(resource), given))
    better = {it.pointer: it.fix for it in refused}  # an operator may take less than its schema does
    problems = [replace(it, fix=better.get(it.pointer, it.fix)) if _is_a_choice(it) else it for it in problems]
    beyond += [*claims_that_go(manifest), *refused]
    broken = [problem.pointer for problem in problems if problem.code in STRUCTURAL]
    problems += [it for it in beyond if not any(f"{it.pointer}/".startswith(f"{place}/") for place in broken)]
    return list(dict.fromkeys(problems)), by


def _is_a_choice(problem: Problem) -> bool:
    """Whether the value has the type that the schema asks for, and is none of those that it allows."""
    return problem.code == "TW705" and " cannot be " in problem.message


def _by_name(manifest: Mapping[str, Any], kubernetes: str) -> tuple[list[Problem], CheckedBy]:
    """What can be said of a custom resource without its CRD."""
    problems = metadata_structure(manifest["metadata"], kubernetes)
    known = named(str(manifest["apiVersion"]), str(manifest["kind"]))
    if known is None:
        return problems, CheckedBy.NOTHING
    unknown = unknown_fields(manifest, known.schema)
    return [*(replace(it, message=f"{it.message} ({known.release})") for it in unknown), *problems], CheckedBy.NAMES


def beyond_schema(manifest: Mapping[str, Any]) -> list[Problem]:
    """What no schema can say of an object of Kubernetes' own kinds that fits its schema."""
    problems = [*pod_problems(manifest), *refusals(manifest)]
    if not any(problem.code in STRUCTURAL for problem in problems):
        problems += metadata_problems(manifest)
    return list(dict.fromkeys(problems))


_HOOK = "/metadata/annotations/argocd.argoproj.io~1hook"
"""Argo CD creates its hooks anew for each sync, so that they may have generated names."""

_GENERATED = Problem(
    "TW715",
    "/metadata/generateName",
    "the object has no name of its own: each `kubectl create` makes another one, and `kubectl apply` refuses it",
    "add `name:` where the object is applied, or synced by Argo CD",
)


def _for_a_tool(tool: str, files: Sequence[Manifest]) -> Finding:
    message = f"{counted(len(files), 'file')} for {tool}, with no object to apply"
    built = "validate what it builds: `kubectl kustomize FOLDER > built.yaml`"
    fix = built if tool == "kustomize" else "keep it out of the folder that is applied"
    return found("TW715", files[0].where("/kind"), message, fix)


def _unchecked(kind: str, count: int, manifest: Manifest) -> Finding:
    message = f"{counted(count, 'object')} of {kind} NOT VALIDATED: there is no CustomResourceDefinition of it here"
    fix = "run `trainwright crds`, or give the folder that has it: `--crds DIR`"
    return found("TW702", manifest.where("/kind"), message, fix)


def _by_name_only(counts: Mapping[str, int], manifest: Manifest) -> Finding:
    what = f"of {counted(sum(counts.values()), 'object')} only the names of fields were validated, not types or required fields"
    message = f"{what}: there is no CustomResourceDefinition here of {', '.join(counts)}"
    fix = "run `trainwright crds`, or give the folder that has it: `--crds DIR`"
    return found("TW702", manifest.where("/kind"), message, fix)
