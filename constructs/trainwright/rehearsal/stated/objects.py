"""What is rehearsed: the objects in a file, their pods, the trainer's specification, and why they cannot work."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from trainwright.findings import CompileError
from trainwright.manifest.kinds import GroupKind
from trainwright.operators import operator
from trainwright.operators.operator import Around, Made, makes_pods
from trainwright.rehearsal.stated.kinds import ConfigMap, Container, Kind, Object, PodSpec, Secret, Service
from trainwright.validate.manifests import read_objects
from trainwright_trainer.contract import API_VERSION, RunSpec
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.contract.spec import Meeting, RayRendezvous

Tree = Mapping[str, Any]
Read = TypeVar("Read", bound=Kind)
Found = TypeVar("Found", bound=Object)
LEADERS = ("launcher", "submitter")
"""Roles whose pod starts the program, and shows what it says."""
NETWORK_POLICY = GroupKind("networking.k8s.io", "NetworkPolicy")
IGNORED_KINDS = frozenset({GroupKind("", "Namespace"), GroupKind("", "PersistentVolumeClaim"), NETWORK_POLICY})
"""Objects that may be beside a run and need no playing: policies are evaluated."""


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
class Slot:
    """A place for a pod, which its controller fills and fills again."""

    number: int
    """Among all of the run."""
    made: operator.Pod
    spec: PodSpec
    later: bool = False
    """Whether another pod must have succeeded first."""

    @property
    def name(self) -> str:
        """``worker 1``."""
        return f"{self.made.role} {self.made.index}"

    @property
    def host_name(self) -> str:
        return self.spec.hostname or str(self.made.manifest["metadata"]["name"])

    @property
    def owner(self) -> str:
        return str(self.made.manifest["metadata"]["ownerReferences"][0]["name"])

    @property
    def reads_specification(self) -> bool:
        return any(variable.name == SPEC_ENV for variable in self.spec.main.env)


@dataclass(frozen=True, slots=True)
class Objects:
    """What carries one run, its pods, and what they see of the other objects."""

    workload: Tree
    around: Around
    slots: tuple[Slot, ...]
    config_maps: Mapping[str, ConfigMap]
    """By name, of the run's namespace."""
    secrets: Mapping[str, Secret]
    """Those of the files, and those that a controller makes, whose values are empty."""
    services: Mapping[str, Service]
    made_services: frozenset[str]
    """Those that a controller makes."""
    services_elsewhere: Mapping[str, str]
    """Name -> namespace, of Services that give these pods no names because they are in another namespace."""
    left_out: tuple[str, ...]
    """``Kind name`` of objects that a rehearsal does not play."""

    @property
    def name(self) -> str:
        return str(self.workload["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.workload["metadata"].get("namespace", "default"))

    @property
    def where(self) -> str:
        """``Job digits``."""
        return f"{self.workload['kind']} {self.name}"

    def place(self, slot: Slot, container: Container | None = None) -> str:
        """``PyTorchJob digits, worker, container trainer``; the role is told where there are several."""
        roles = dict.fromkeys(one.made.role for one in self.slots)
        role = f", {slot.made.role}" if len(roles) > 1 else ""
        return f"{self.where}{role}{f', container {container.name}' if container else ''}"

    @property
    def first_of_roles(self) -> list[Slot]:
        """One pod of each role: the others are like it."""
        return list({slot.made.role: slot for slot in reversed(self.slots)}.values())[::-1]

    @property
    def leader(self) -> Slot:
        """The pod whose log tells of the training: a launcher or submitter, else the first."""
        return next((slot for slot in self.slots if slot.made.role in LEADERS), self.slots[0])

    @property
    def containers(self) -> list[Container]:
        return [container for slot in self.first_of_roles for container in slot.spec.all_containers]


def objects_in(path: Path) -> list[dict[str, Any]]:
    """Every object of a YAML file. Raises :class:`UsageError` with the line of each thing that cannot be read as one."""
    try:
        return read_objects(path)
    except CompileError as error:
        raise UsageError(str(error)) from error


def find_objects(manifests: Sequence[Tree], foundation: Sequence[Tree] = ()) -> Objects:
    """Ask the controller of the one object that makes pods for them, and sort the others by kind.

    Args:
        manifests: of the run.
        foundation: of its namespace: what the run may name.

    Raises:
        CannotWorkError: for no run, a second one, an object that the API server would refuse, or a field of the wrong type.
    """
    workload = _the_one([one for one in manifests if makes_pods(one)], manifests)
    around = Around(tuple(one for one in (*manifests, *foundation) if one is not workload))
    made = _pods(workload, around)
    names = workload["metadata"]
    namespace = str(names.get("namespace", "default"))
    others = [*(one for one in around.objects if isinstance(one.get("metadata"), dict)), *made.objects]
    services = _all(Service, others)
    return Objects(
        workload=workload,
        around=around,
        slots=tuple(
            Slot(number, pod, _read(PodSpec, pod.spec, f"{workload['kind']} {names['name']}, {pod.role}"), pod in made.later)
            for number, pod in enumerate(made.every_pod)
        ),
        config_maps=_here(_all(ConfigMap, others), namespace),
        secrets=_here(_all(Secret, others), namespace),
        services=_here(services, namespace),
        made_services=frozenset(one["metadata"]["name"] for one in made.objects if one["kind"] == Service.key.kind),
        services_elsewhere={
            one.metadata.name: one.metadata.namespace for one in services if one.metadata.namespace != namespace
        },
        left_out=tuple(
            f"{one['kind']} {(one.get('metadata') or {}).get('name')}" for one in manifests
            if one is not workload and GroupKind.of(one) not in {*IGNORED_KINDS, ConfigMap.key, Service.key, Secret.key}
        ),
    )  # fmt: skip


def _the_one(carriers: Sequence[Tree], manifests: Sequence[Tree]) -> Tree:
    if len(carriers) == 1:
        return carriers[0]
    kinds = ", ".join(dict.fromkeys(str(one.get("kind")) for one in manifests)) or "nothing"
    message = f"they hold {len(carriers) or 'no'} objects whose pods a rehearsal knows ({kinds})"
    raise CannotWorkError([Blocker("manifests", message, "rehearse the file of one run")])


def _pods(workload: Tree, around: Around) -> Made:
    where = f"{workload['kind']} {(workload.get('metadata') or {}).get('name') or 'without a name'}"
    try:
        made = operator.pods(workload, around)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, LookupError) and not isinstance(error, KeyError | IndexError):
            fix = "write it beside the run, or into its namespace's foundation"
            raise CannotWorkError([Blocker(where, str(error), fix)]) from None
        missing = f"it needs the field {error.args[0]}" if isinstance(error, KeyError) else f"it cannot be read: {error}"
        raise CannotWorkError([Blocker(where, missing, "run `trainwright validate` on the file")]) from None
    if not made.pods:
        raise CannotWorkError([Blocker(where, "its controller would make no pod", "write the number of pods")])
    return made


def _all(kind: type[Found], manifests: Iterable[Tree]) -> list[Found]:
    found = (one for one in manifests if GroupKind.of(one) == kind.key)
    return [_read(kind, one, f"{kind.key.kind} {one['metadata'].get('name')}") for one in found]


def _here(found: Iterable[Found], namespace: str) -> dict[str, Found]:
    return {one.metadata.name: one for one in found if one.metadata.namespace == namespace}


def _read(kind: type[Read], manifest: Tree, where: str) -> Read:
    try:
        return kind.model_validate(manifest)
    except ValidationError as error:
        raise CannotWorkError([
            Blocker(where, f"{'.'.join(map(str, detail['loc']))}: {_lower(detail['msg'])}", "write the type that the API expects")
            for detail in error.errors(include_url=False)[:10]
        ]) from None


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def with_containers(objects: Objects, keep: Mapping[int, PodSpec]) -> Objects:
    """The objects with other specs of the pods, by their number."""
    return replace(objects, slots=tuple(replace(slot, spec=keep[slot.number]) for slot in objects.slots))


@dataclass(frozen=True, slots=True)
class Specification:
    """A run's specification, as the trainer reads it, and where it is."""

    config_map: str
    key: str
    spec: RunSpec

    @property
    def meeting(self) -> Meeting | None:
        """Where the pods find each other; None where that is not known beforehand."""
        try:
            return self.spec.world.meeting
        except TypeError:
            return None

    @property
    def where(self) -> str:
        return f"ConfigMap {self.config_map}, {self.key}"

    @property
    def supervises(self) -> bool:
        """Whether a supervisor is process 1 of the pods that read it. Ray's pods run Ray, which starts the ranks."""
        return not isinstance(self.spec.world.rendezvous, RayRendezvous)


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
