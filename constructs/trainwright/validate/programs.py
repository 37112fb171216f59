"""The rules on programs (``program/``), asked of the containers in foreign manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from trainwright.command.launchers import Fact
from trainwright.command.reading import read
from trainwright.findings import Finding, Where
from trainwright.findings.locate import at, escape, tokens
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.labels import MANAGED
from trainwright.manifest.pods import pods_in
from trainwright.objects.fields import items, mapping, text, texts, whole
from trainwright.operators import operator
from trainwright.program import RULES, TOGETHER
from trainwright.program.container import Program
from trainwright.program.launching import INDEX, VARIABLES, World
from trainwright.program.slots import Slots
from trainwright.validate.manifests import Manifest

_MARK = "trainwright/pointer"
_COUNTS = frozenset({"replicas", "parallelism", "numNodes"})
_MOST = 4096
"""Pods that are worth making for a few lines of text."""


def is_ours(manifest: Manifest) -> bool:
    """Whether it was judged when its run was compiled."""
    return MANAGED.items() <= mapping(manifest.data, "/metadata/labels").items()


def program_findings(
    manifests: Sequence[Manifest], judged: Callable[[Manifest], bool] = is_ours
) -> Iterator[Finding]:
    """What the rules of runs say of the commands of manifests that were not judged before."""
    objects = [manifest.data for manifest in manifests]
    for manifest in manifests:
        if not judged(manifest):
            programs = list(_programs(manifest, manifests, objects))
            yield from (finding for program in programs for rule in RULES for finding in rule(program))
            yield from (finding for rule in TOGETHER for finding in rule(programs))


def _programs(manifest: Manifest, manifests: Sequence[Manifest], objects: Sequence[Mapping[str, Any]]) -> Iterator[Program]:
    data, kind = manifest.data, GroupKind.of(manifest.data)
    stated = [
        (pod.pointer, pod.spec, f"{pod.pointer}/containers/{number}", container)
        for pod in pods_in(data)
        for number, container in items(pod.spec, "/containers")
    ]
    if kind == TRAIN_JOB:
        stated.append((_TRAINER, {}, _TRAINER, mapping(data, _TRAINER)))
    stated = [one for one in stated if texts(one[3], "/command") or texts(one[3], "/args")]
    if kind.group == "ray.io" and (entry := text(data, "/spec/entrypoint")):
        yield Program(read(("sh", "-c", entry)), {}, {}, lambda _: manifest.where("/spec/entrypoint"), process_1=False)
    made = _made(data, objects) if stated else None
    for pointer, spec, place, container in stated:
        words = (*texts(container, "/command"), *texts(container, "/args"))
        files = dict(_files(spec, container, manifests))
        here = {path: content for path, (content, _) in files.items()}
        program = Program(read(words), container, spec, partial(_where, manifest, place, files), here)
        yield _among(program, data, pointer, made, objects)


TRAIN_JOB, _TRAINER = GroupKind("trainer.kubeflow.org", "TrainJob"), "/spec/trainer"
_Files = Mapping[str, tuple[str, Where]]


def _where(manifest: Manifest, place: str, files: _Files, below: str) -> Where:
    path = tokens(below)[1] if below.startswith("/files/") else ""
    return files[path][1] if path else manifest.where(f"{place}{below}")


def _files(spec: Mapping[str, Any], container: Mapping[str, Any], manifests: Sequence[Manifest]) -> Iterator[tuple[str, Any]]:
    """Texts from ConfigMaps in the same files, where the container has them."""
    maps = {text(one.data, "/metadata/name"): one for one in manifests if one.data.get("kind") == "ConfigMap"}
    volumes = {text(one, "/name"): text(one, "/configMap/name") for _, one in items(spec, "/volumes")}
    for _, mount in items(container, "/volumeMounts"):
        source, path = maps.get(volumes.get(text(mount, "/name"), "")), text(mount, "/mountPath").rstrip("/")
        for key, content in mapping(source.data, "/data").items() if source is not None else ():
            if source and isinstance(content, str) and text(mount, "/subPath", key) == key:
                whole_path = path if text(mount, "/subPath") else f"{path}/{key}"
                yield whole_path, (content, source.where(f"/data/{escape(key)}"))


def _made(data: Mapping[str, Any], objects: Sequence[Mapping[str, Any]]) -> operator.Made | None:
    """What its controller would make of it; None where that is not known, or where the API server would refuse it."""
    marked = deepcopy(dict(data))
    for pod in pods_in(data):
        owner = at(marked, pod.pointer.removesuffix("/spec"))
        if isinstance(owner, dict) and isinstance(owner.setdefault("metadata", {}), dict):
            owner["metadata"]["annotations"] = {**(mapping(owner, "/metadata/annotations")), _MARK: pod.pointer}
    return operator.made(marked, operator.Around(objects)) if prod(_counts(data)) <= _MOST else None


def _counts(node: Any) -> Iterator[int]:
    for key, value in node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ():
        if key in _COUNTS and isinstance(value, int):
            yield max(value, 1)
        yield from _counts(value)


def _among(
    program: Program, data: Mapping[str, Any], pointer: str, made: operator.Made | None, objects: Sequence[Mapping[str, Any]]
) -> Program:
    """The same with what its controller tells it, and with the pods beside it."""
    kind, by_name = GroupKind.of(data), text(program.container, "/name", "node")
    pods = [pod for pod in (made.pods if made else ()) if pod.annotations.get(_MARK) == pointer or _trains(pod, pointer)]
    containers = [one for pod in pods for _, one in items(pod.spec, "/containers") if text(one, "/name") == by_name]
    if made is None or not containers:
        nodes = whole(data, f"{_TRAINER}/numNodes", 0) if kind == TRAIN_JOB else 0
        world = World(f"the {kind.kind}", nodes, {Fact.NODES: (str(nodes),)}, nodes, ranges=True, field={}) if nodes else None
        return replace(program, world=world)
    first, last = (one.get("env") or () for one in (containers[0], containers[-1]))
    env = [one if one == other else {"name": text(one, "/name")} for one, other in zip(first, last, strict=False)]
    services = [text(one, "/metadata/name") for one in (*made.objects, *objects) if one.get("kind") == "Service"]
    container = {**containers[0], "env": env}
    return replace(
        program,
        container=container,
        world=_world(kind.kind, container, len(pods), len(made.pods)),
        hosts=frozenset({*services, *(pod.host for pod in made.pods)}),
        slots=_slots(data) if kind.kind == "MPIJob" else None,
    )


def _trains(pod: operator.Pod, pointer: str) -> bool:
    """Whether a TrainJob's own words go to a pod, whose template is its runtime's."""
    return pointer == _TRAINER and pod.role == "node"


_WHOLE = frozenset({"PyTorchJob", "TrainJob", "Job"})
"""Kinds whose pods all meet; in others those of one role may do so by themselves."""


def _world(kind: str, container: Mapping[str, Any], alike: int, total: int) -> World:
    gpus = sum(int(str(count)) for name, count in mapping(container, "/resources/limits").items()
               if "gpu" in name and str(count).isdigit())
    sizes = dict.fromkeys([str(total)] if kind in _WHOLE else [str(total), str(alike)])
    each = {Fact.EACH: tuple(str(count) for count in range(gpus, 0, -1))} if gpus else {}
    env = {text(one, "/name"): one.get("value") for _, one in items(container, "/env")}
    return World(
        f"the {kind}", total, {Fact.NODES: tuple(sizes), **each}, alike, max(gpus, 1), gpus, ranges=True,
        number=next((name for name in (INDEX, "JOB_COMPLETION_INDEX", "VC_TASK_INDEX") if name in env), ""),
        tells=bool({"PET_MASTER_ADDR", "PET_RDZV_ENDPOINT"} & env.keys()),
        holds={name: of for name, of in VARIABLES.items() if env.get(name) is None}, field={},
    )  # fmt: skip


def _slots(data: Mapping[str, Any]) -> Slots | None:
    """Of an MPIJob, whose mpirun is told of them in its host file."""
    workers = whole(data, "/spec/mpiReplicaSpecs/Worker/replicas", 0) or 0
    each, holds = whole(data, "/spec/slotsPerWorker", 1) or 1, at(data, "/spec/runLauncherAsWorker") is True
    by_open_mpi = text(data, "/spec/mpiImplementation", "OpenMPI") == "OpenMPI"
    return Slots(each * (workers + holds), each, "workers x slotsPerWorker") if by_open_mpi else None
