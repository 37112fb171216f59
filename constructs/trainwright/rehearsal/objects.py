"""What is rehearsed: the objects in a file, the trainer's specification among them, and why they cannot work."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from trainwright.findings import CompileError, Severity
from trainwright.manifest.kinds import GroupKind
from trainwright.operators import TARGETS
from trainwright.rehearsal.kinds import ConfigMap, Job, Object, Service
from trainwright.validate.manifests import read_manifests
from trainwright_trainer.contract import API_VERSION, RunSpec
from trainwright_trainer.contract.spec import Meeting

Found = TypeVar("Found", bound=Object)
IGNORED_KINDS = frozenset({GroupKind("", "Namespace"), GroupKind("", "PersistentVolumeClaim")})
"""Objects that may be beside a Job and mean nothing on one machine."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason, in the words of the part of the cluster that would report it."""

    where: str
    """Kind, name and field: ``Job digits, container trainer, readinessProbe``."""
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}; {self.fix}"


class CannotWorkError(Exception):
    """The manifests cannot work; carries every problem that was found."""

    headline: ClassVar[str] = "These manifests cannot work"

    def __init__(self, problems: Sequence[Blocker]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class CannotPlayError(CannotWorkError):
    """The manifests may well work in a cluster, and a rehearsal cannot play them on this machine."""

    headline = "A rehearsal cannot play this here"


class UsageError(Exception):
    """The request itself is wrong: a missing file, a folder that is not a rehearsal's, a rehearsal that already runs."""


@dataclass(frozen=True, slots=True)
class Objects:
    """One Job, and what its pods see of the other objects."""

    job: Job
    config_maps: Mapping[str, ConfigMap]
    """By name, of the Job's namespace."""
    services: Mapping[str, Service]
    services_elsewhere: Mapping[str, str]
    """Name -> namespace, of Services that give these pods no names because they are in another namespace."""
    left_out: tuple[str, ...]
    """``Kind name`` of objects that a rehearsal does not play."""


def objects_in(path: Path) -> list[dict[str, Any]]:
    """Every object of a YAML file. Raises :class:`UsageError` with the line of each thing that cannot be read as one."""
    manifests, findings = read_manifests(path)
    if errors := [one for one in findings if one.severity is Severity.ERROR]:
        raise UsageError(str(CompileError(errors)))
    return [one.data for one in manifests]


def find_objects(manifests: Sequence[Mapping[str, Any]]) -> Objects:
    """Sort the manifests by kind. Raises :class:`CannotWorkError` for no Job, a second one, or a field of the wrong type."""
    by_kind: dict[GroupKind, list[Mapping[str, Any]]] = {}
    for manifest in manifests:
        by_kind.setdefault(GroupKind.of({"apiVersion": "", "kind": "", **manifest}), []).append(manifest)
    jobs = by_kind.pop(Job.key, [])
    if len(jobs) != 1:
        raise _not_one_job(len(jobs), by_kind)
    job = _read(Job, jobs[0])
    config_maps = [_read(ConfigMap, manifest) for manifest in by_kind.pop(ConfigMap.key, [])]
    services = [_read(Service, manifest) for manifest in by_kind.pop(Service.key, [])]
    return Objects(
        job=job,
        config_maps={one.metadata.name: one for one in config_maps if one.metadata.namespace == job.namespace},
        services={one.metadata.name: one for one in services if one.metadata.namespace == job.namespace},
        services_elsewhere={
            one.metadata.name: one.metadata.namespace for one in services if one.metadata.namespace != job.namespace
        },
        left_out=tuple(
            f"{kind.kind} {(manifest.get('metadata') or {}).get('name')}"
            for kind, group in by_kind.items() if kind not in IGNORED_KINDS for manifest in group
        ),
    )


def _not_one_job(jobs: int, others: Mapping[GroupKind, object]) -> CannotWorkError:
    carrier = next((target.kind for target in TARGETS.values() if target.kind in others), None)
    if carrier and not jobs:
        fix = "rehearse the same run as a Job: where the topology allows it, write target: indexed-job into a copy of its file"
        message = f"a {carrier.kind} of {carrier.group} carries the run, and a rehearsal plays only Jobs of {Job.key.group}"
        return CannotPlayError([Blocker("manifests", message, fix)])
    message = f"they hold {jobs or 'no'} Job{'' if jobs == 0 else 's'}"
    return CannotPlayError([Blocker("manifests", message, "rehearse the file of one run")])


def _read(kind: type[Found], manifest: Mapping[str, Any]) -> Found:
    name = (manifest.get("metadata") or {}).get("name") if isinstance(manifest.get("metadata"), dict) else None
    try:
        return kind.model_validate(manifest)
    except ValidationError as error:
        where = f"{kind.key.kind} {name or 'without a name'}"
        raise CannotWorkError([
            Blocker(where, f"{'.'.join(map(str, detail['loc']))}: {_lower(detail['msg'])}", "write the type that the API expects")
            for detail in error.errors(include_url=False)[:10]
        ]) from None


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


@dataclass(frozen=True, slots=True)
class Specification:
    """A run's specification, as the trainer reads it, and where it is."""

    config_map: str
    key: str
    spec: RunSpec

    @property
    def meeting(self) -> Meeting:
        """Where the pods find each other; only a static world is played."""
        return self.spec.world.meeting

    @property
    def where(self) -> str:
        return f"ConfigMap {self.config_map}, {self.key}"


def find_specification(config_maps: Mapping[str, ConfigMap]) -> Specification | None:
    """The first valid specification; None for an opaque command.

    An invalid one counts as none here: the supervisor refuses it by itself, with the exit code that the failure policy knows.
    """
    for name, config_map in config_maps.items():
        for key, text in config_map.data.items():
            if _claims_to_be_one(text):
                try:
                    return Specification(name, key, RunSpec.model_validate_json(text))
                except ValidationError:
                    continue
    return None


def _claims_to_be_one(text: str) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("api_version") == API_VERSION
