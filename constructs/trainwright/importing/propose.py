"""A run for one object: the words of its pods, joined into those of a run and of its roles."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

from trainwright.findings.locate import at, escape
from trainwright.importing.emitted import Aim, is_ours, supervised, without_ours
from trainwright.importing.neighbours import Level, level_of
from trainwright.importing.pods import Needs, Spoken, main_of, spoken
from trainwright.importing.read import Given
from trainwright.importing.recognize import processes_each, topologies
from trainwright.importing.secrets import hide
from trainwright.importing.words import Data, Words, leaves
from trainwright.manifest.kueue import QUEUE_LABEL
from trainwright.manifest.labels import RUN_LABEL, TEAM_LABEL, is_the_plans
from trainwright.objects.fields import mapping, text
from trainwright.objects.metadata import not_a_label
from trainwright.operators import operator
from trainwright.operators.said import Part, Said
from trainwright.plan.said import place_of, said_by_variables
from trainwright.run.roles import OF_ALL
from trainwright.validate.manifests import Manifest
from trainwright.variables.secret import has_secret
from trainwright_trainer.contract.layout import CHECKPOINT_ENV

SHARED = (
    "placement",
    "image_pull_policy",
    "env_from",
    "service_account",
    "image_pull_secrets",
    "priority",
    "host_network",
    "grace",
    "scheduling_gates",
)
"""Fields that a run says of all its pods at once."""
WISHES = ("pod_affinity", "pod_anti_affinity")
"""What pods want of others: of all ranks only where each says it."""
OF_RANKS = tuple(field for field in OF_ALL if field != "security")
OF_WORK = ("ports", "probes", "pre_stop")
_LONGEST = 40


@dataclass
class Proposal:
    """A run that may be, before anything is compiled."""

    manifest: Manifest
    said: Said
    words: Words
    topologies: tuple[dict[str, Any], ...]
    """The kinds that it may have, the likeliest first."""
    needs: Mapping[str, Needs]
    """Role -> what its pods need; those with ranks under the empty name."""
    hidden: tuple[tuple[str, str], ...]
    """Variables whose values are secrets, and where the object has them."""
    instead: Proposal | None = None
    """The one for where a run cannot refer to the runtime that this one names."""
    around: tuple[Mapping[str, Any], ...] = ()
    """The other objects of the files, and of the profile."""
    refused: str = ""
    """Why it is in place of one that does."""
    aim: Aim | None = None
    """What it was emitted as, where it was."""
    level: Level | None = None
    """The place that its pods with ranks share."""

    @property
    def runtime(self) -> Mapping[str, Any] | None:
        """The runtime that it refers to."""
        return self.said.runtime

    def without_runtime(self, why: str) -> Proposal:
        return replace(self.instead or self, refused=why)

    def level_beside(self, *, finding_queues: bool) -> Level | None:
        """The same, where a profile asks for it as the object does: by the queue, or by an affinity.

        Args:
            finding_queues: whether the profile's queues look for places.
        """
        asked_of_queue = finding_queues and "queue" in self.words.data
        return None if self.level and asked_of_queue and not self.level.of_queue else self.level

    def put_together(self, level: str) -> None:
        """At a level, by its name in the profile."""
        self.words.say("/placement/together", level)
        if self.level and not self.level.of_queue:  # the affinity that says so has become this word
            for pointer in ("", *(f"/roles/{one.role}" for one in self.said.parts if one.ranks)):
                if at(self.words.data, f"{pointer}/pod_affinity") is not None:
                    self.words.data = self.words.without(f"{pointer}/pod_affinity")
        if self.level and self.level.required:
            self.words.say("/placement/required", True)

    @property
    def name(self) -> str:
        return str(self.words.data["run"])

    @property
    def nodes(self) -> int:
        return int(self.words.data["topology"]["nodes"])

    @property
    def namespace(self) -> str:
        return str(self.words.data["namespace"])


def propose(
    manifest: Manifest, given: Given, names: set[str], team: str | None, cluster: str, installed: Sequence[Mapping[str, Any]] = ()
) -> Proposal:
    """The run of one object.

    Args:
        names: of the runs before it, which differ from its own.
        team: who owns it, where the object does not say so.
        cluster: the profile that it goes to.
        installed: objects that the profile holds.

    Raises:
        LookupError: for an object that it names, and that is not given.
        ValueError: it makes no pods, or is in a namespace that there cannot be.
    """
    objects = [one.data for one in given.around]
    said = operator.said(manifest.data, operator.Around([*objects, *installed]))
    whole = _proposal(manifest, (said and said.instead) or said, given, names, team, cluster)
    whole = replace(whole, around=(*objects, *installed))
    if said is None or said.instead is None:
        return whole
    return replace(_proposal(manifest, said, given, names, team, cluster), instead=whole, around=whole.around)


def _proposal(
    manifest: Manifest, said: Said | None, given: Given, names: set[str], team: str | None, cluster: str
) -> Proposal:
    if said is None or not said.parts or not any(one.ranks for one in said.parts):
        raise ValueError("no pods are found in it; write it in the version of its kind that its operator serves today")
    if sum(one.ranks for one in said.parts) > 1:  # what ranks of one role want of each other is no wish of all ranks
        said = said._replace(parts=tuple(one._replace(marks={}) for one in said.parts))
    objects = [one.data for one in given.around]
    metadata, words, ours = mapping(manifest.data, "/metadata"), Words(), supervised(manifest.data, objects)
    name, namespace = _name(manifest.data, names), text(metadata, "/namespace") or "default"
    if wrong := not_a_label(namespace):
        raise ValueError(f"namespace {namespace} {wrong}")
    of_pods = {key: value for part in said.parts for key, value in mapping(part.template, "/metadata/labels").items()}
    labels = {**{key: of_pods[key] for key in (QUEUE_LABEL,) if key in of_pods}, **mapping(metadata, "/labels")}
    words.say("/run", name, "/metadata/name")
    words.say("/team", team or dns_label(str(labels.get(TEAM_LABEL) or labels.get("team") or "")) or "research")
    words.say("/namespace", namespace, "/metadata/namespace")
    words.say("/cluster", cluster)
    words.say("/target", said.target, "/kind")
    if said.runtime:
        words.say("/runtime", text(said.runtime, "/metadata/name"), "/spec/runtimeRef/name")
        if not mapping(said.runtime, "/spec/podGroupPolicy"):
            words.say("/gang", False)  # nobody would start its pods together
    maps = {text(one.data, "/metadata/name"): one.data for one in given.of_kind("ConfigMap")}
    owner = text(metadata, "/name")
    pods = [spoken(part, owner, maps, f"{name}-secrets") for part in said.parts]
    if is_ours(manifest.data):
        for one in pods:
            one.words.data = without_ours(one.words.data, objects)
    base = max((one for one in pods if one.part.ranks), key=lambda one: one.part.pods)
    work = pods[0] if not pods[0].part.further else base
    _join(words, pods, base, work, drives="/workload/command" in said.words)
    _work(words, said, work)
    _metadata(words, metadata)
    _queue(words, labels, said, base, supervised=ours is not None)
    _topology(words, said, pods, base, work)
    if is_ours(manifest.data):
        _of_ours(words, base, ours, owner)
    needs = {"": base.needs, **{one.part.role: one.needs for one in pods if one is not base and not one.part.ranks}}
    found = tuple(topologies(said, [*_listed(work.words, "command"), *_listed(work.words, "args")],
                             [*_files(words), name, str(words.data.get("image", ""))],
                             words.data.get("env", {}), int(words.data["topology"]["nodes"])))  # fmt: skip
    hidden = tuple(dict.fromkeys(pair for one in pods for pair in one.hidden))
    aim = Aim(manifest.data, objects, ours or ()) if is_ours(manifest.data) else None
    level = level_of([part.template for part in said.parts if part.ranks], owner)
    return Proposal(manifest, said, words, found, needs, (*hidden, *hide(words, f"{name}-secrets")), aim=aim, level=level)


def _name(data: Data, names: set[str]) -> str:
    """That of the object, as runs are named; of an object of ours the run's."""
    labels, metadata = mapping(data, "/metadata/labels"), mapping(data, "/metadata")
    ours = text(labels, f"/{escape(RUN_LABEL)}") if is_ours(data) else ""
    return unlike(dns_label(ours or text(metadata, "/name") or text(metadata, "/generateName")) or "run", names)


def unlike(name: str, taken: Container[str]) -> str:
    """The same, or with a number behind it where something else has it; no longer than names of runs."""
    numbered = (f"{name[: _LONGEST - 3]}-{number}" for number in count(2))
    return next(one for one in chain([name], numbered) if one not in taken)


def dns_label(name: str) -> str:
    """A DNS-1035 label of at most 40 characters, cut at a dash where it is longer."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    plain = re.sub(r"^[0-9-]+", "", plain)
    if len(plain) > _LONGEST:
        plain = plain[: _LONGEST + 1].rpartition("-")[0] or plain[:_LONGEST]
    return plain[:_LONGEST].strip("-")


def _files(words: Words) -> list[str]:
    return [value for value in words.data.get("files", {}).values() if isinstance(value, str)]


def _listed(words: Words, key: str) -> list[str]:
    value = words.data.get(key)
    return value if isinstance(value, list) else []


def _join(words: Words, pods: Sequence[Spoken], base: Spoken, work: Spoken, drives: bool) -> None:
    """Each field at the run where it is of all pods or of those with ranks, else at its role."""
    _copy(words, base, "image")
    for field in SHARED:
        holder = next((one for one in (base, work, *pods) if field in one.words.data), None)
        if holder:
            _copy(words, holder, field)
    for one in pods:
        for field in ("files", "file_modes"):
            _copy(words, one, field)
    folders = [_listed(one.words, "file_folders") for one in pods]
    if alike := [folder for folder in folders[0] if all(folder in each for each in folders)]:
        words.say("/file_folders", alike)  # in the pods of another role it would hide what their image has there
    ranks = [one.words.data for one in pods if one.part.ranks]
    for field in (*OF_RANKS, "security", "resources"):
        alone = field in WISHES and any(one.get(field) != base.words.data.get(field) for one in ranks)
        _copy(words, base, field, f"/roles/{base.part.role}" if alone else "")
    for field in OF_WORK:
        _copy(words, work, field, f"/roles/{work.part.role}" if drives and field == "ports" else "")
    _variables(words, pods, work)
    for one in pods:
        if one is not base:
            _role(words, one, base, work)
            if not one.part.further and not one.part.container and _main_name(one.part)[0] != _main_name(base.part)[0]:
                words.say(f"/roles/{one.part.role}/container", *_main_name(one.part))
        elif one is not work:
            _copy(words, one, "ports", f"/roles/{one.part.role}")
            _program_of(words, one, work)
            _ready(words, one)
    _containers(words, pods)


def _copy(words: Words, one: Spoken, field: str, under: str = "") -> None:
    if field in one.words.data:
        part = Words({field: one.words.data[field]}, {key: there for key, there in one.words.sources.items()
                                                      if key == f"/{field}" or key.startswith(f"/{field}/")})  # fmt: skip
        words.take(under, part)


def _variables(words: Words, pods: Sequence[Spoken], work: Spoken) -> None:
    """Those of all pods are of the run; a launcher's are too, which hands them on to its ranks."""
    launches = not work.part.ranks or work.part.role == "launcher"
    own = [one for one in pods if not one.part.further] if not launches else [work]
    values = [one.words.data.get("env", {}) for one in own]
    common = {
        name: value
        for name, value in work.words.data.get("env", {}).items()
        if all(name in each and each[name] == value for each in values)
    }
    for name, value in common.items():
        words.say(f"/env/{escape(name)}", value, work.words.sources.get(f"/env/{escape(name)}", ""))
    for one in pods:
        for name, value in one.words.data.get("env", {}).items():
            if common.get(name) != value or (launches and one is not work):
                source = one.words.sources.get(f"/env/{escape(name)}", "")
                words.say(f"/roles/{one.part.role}/env/{escape(name)}", value, source)


def _role(words: Words, one: Spoken, base: Spoken, work: Spoken) -> None:
    """What the pods of a role have of their own."""
    under, part, own = f"/roles/{one.part.role}", one.part, one.words.data
    if part.further:
        words.say(f"{under}/pods", part.pods, part.pointer)
        for pointer, (value, source) in part.words.items():
            words.say(under + pointer, _of_main(part, pointer, value), source)
        if one.needs.gpus:
            words.say(f"{under}/gpus", one.needs.gpus, part.pointer)
    if own.get("image") != base.words.data.get("image") or (part.further and not own.keys() & {"command", "args"}):
        _copy(words, one, "image", under)  # whose entrypoint is its program
    for field in ("resources", *OF_ALL):
        alike = own.get(field) == base.words.data.get(field)
        if not alike or (not part.ranks and field != "security"):
            _copy(words, one, field, under)
    for field in ("privileged", "capabilities") if not part.ranks else ():  # what the run states of these is for its ranks
        if field in own.get("security", {}):
            pointer = f"/security/{field}"
            words.say(under + pointer, own["security"][field], one.words.sources.get(pointer, ""))
    if one is not work and not (part.ranks and work.part.ranks and own.get("ports") == work.words.data.get("ports")):
        _copy(words, one, "ports", under)
    if one is not work:
        _program_of(words, one, work)
        _ready(words, one)


def _ready(words: Words, one: Spoken) -> None:
    ready = one.words.data.get("probes", {}).get("ready")
    if ready and (one.part.further or one.words.data.keys() & {"command", "args"}):
        words.say(f"/roles/{one.part.role}/ready", ready, one.words.sources.get("/probes/ready", ""))


def _program_of(words: Words, one: Spoken, work: Spoken) -> None:
    under, own = f"/roles/{one.part.role}", one.words.data
    theirs = work.words.data
    if one.part.further or [own.get("command"), own.get("args")] != [theirs.get("command"), theirs.get("args")]:
        for field in ("command", "args"):
            _copy(words, one, field, under)
    if own.get("working_dir") != theirs.get("working_dir"):
        _copy(words, one, "working_dir", under)


def _containers(words: Words, pods: Sequence[Spoken]) -> None:
    """Each once, with the roles whose pods have it."""
    found: list[tuple[dict[str, Any], list[Spoken]]] = []
    for one in pods:
        for container in one.words.data.get("containers", ()):
            known = next((holders for stated, holders in found if stated == container), None)
            known.append(one) if known is not None else found.append((container, [one]))
    ranks = [one for one in pods if one.part.ranks]
    said = list[dict[str, Any]]()
    for container, holders in found:
        if any(_called(one) == _called(container) for one in said):  # another one of that name, in other pods
            container = _renamed(container, holders[0].part.role)
        of_ranks = {id(one) for one in holders} == {id(one) for one in ranks}
        said.append(container if of_ranks else {**container, "roles": [one.part.role for one in holders]})
    if said:
        words.say("/containers", said, found[0][1][0].words.sources.get("/containers", ""))


def _called(container: Mapping[str, Any]) -> Any:
    return container.get("name") or container.get("container", {}).get("name")


def _renamed(container: dict[str, Any], role: str) -> dict[str, Any]:
    if "name" in container:
        return {**container, "name": f"{container['name']}-{role}"}
    return {**container, "container": {**container["container"], "name": f"{_called(container)}-{role}"}}


def _work(words: Words, said: Said, work: Spoken) -> None:
    words.say("/workload/kind", "command")
    stated = {pointer: value for pointer, value in said.words.items() if pointer.startswith(("/workload/", "/files/"))}
    for pointer, (value, source) in stated.items():
        words.say(pointer, value, source)
    if not stated:
        for field in ("command", "args"):
            _copy(words, work, field, "/workload")
    _copy(words, work, "working_dir", "/workload")
    if not {"command", "args"} & words.data["workload"].keys():
        words.say("/workload/args", [], work.part.source("/spec/containers/0"))


def _metadata(words: Words, metadata: Mapping[str, Any]) -> None:
    for field in ("labels", "annotations"):
        for key, value in mapping(metadata, f"/{field}").items():
            reserved = key.startswith((QUEUE_LABEL, "argocd.argoproj.io/")) or is_the_plans(key, str(value))
            if reserved or has_secret(str(value)):
                continue
            words.say(f"/{field}/{escape(key)}", str(value), f"/metadata/{field}/{escape(key)}")
    for holder in (words.data, *words.data.get("roles", {}).values()):
        for key, value in list(holder.get("pod_labels", {}).items()):
            if is_the_plans(key, value) or key.startswith(QUEUE_LABEL):
                del holder["pod_labels"][key]
        if holder.get("pod_labels") == {}:
            del holder["pod_labels"]


def _of_ours(words: Words, base: Spoken, ours: Data | None, name: str) -> None:
    """What an object of ours says of its run besides: by its specification, in place of what the pods do for the supervisor, and
    by variables of the plan.
    """
    env = words.data.get("env", {})
    for field in ("prepare", "peer_wait"):
        _copy(words, base, field)
    if isinstance(told := env.get(CHECKPOINT_ENV), str):  # who is told a folder for them saves by itself
        words.say("/checkpoints", {"by": "own", **place_of(told, str(words.data["run"]), name)})
    if ours is not None:
        known = {key: words.data["workload"][key] for key in ("working_dir",) if key in words.data["workload"]}
        words.data["workload"] = known
        for pointer, value in leaves(ours):
            words.say(pointer, value)
    for key, value in said_by_variables(env, words.data["workload"]["kind"]).items():
        words.say(f"/workload/{key}", value)


def _main_name(part: Part) -> tuple[str, str]:
    """What the container that trains is called, and where."""
    there = f"/spec/containers/{main_of(part)}/name"
    return text(part.template, there), part.source(there)


def _of_main(part: Part, pointer: str, value: Any) -> Any:
    """Exit codes are those of the container that trains where no other one is named."""
    if pointer != "/exit_codes":
        return value
    main, _ = _main_name(part)
    return [{key: said for key, said in one.items() if (key, said) != ("container", main)} for one in value]


def _queue(words: Words, labels: Mapping[str, Any], said: Said, base: Spoken, supervised: bool) -> None:
    if QUEUE_LABEL in labels:
        words.say("/queue", str(labels[QUEUE_LABEL]), f"/metadata/labels/{escape(QUEUE_LABEL)}")
    elsewhere = ("/topology/", "/workload/", "/files/", *(("/exit_codes",) if supervised else ()))
    for pointer, (value, source) in said.words.items():
        if not pointer.startswith(elsewhere) and (pointer != "/queue" or "queue" not in words.data):
            words.say(pointer, _of_main(base.part, pointer, value), source)


def _topology(words: Words, said: Said, pods: Sequence[Spoken], base: Spoken, work: Spoken) -> None:
    nodes = sum(one.part.pods for one in pods if one.part.ranks)
    counted = f"{base.part.pointer.removesuffix('/template')}/replicas"
    words.say("/topology/nodes", nodes, counted)
    words.say("/topology/gpus_per_node", base.needs.gpus, base.part.source("/spec/containers/0/resources"))
    for pointer, (value, source) in said.words.items():
        if pointer.startswith("/topology/") and not pointer.startswith("/topology/processes_per_node"):
            words.say(pointer, value, source)
    stated = said.words.get("/topology/processes_per_node")
    each = stated[0] if stated else processes_each([*_listed(work.words, "command"), *_listed(work.words, "args")])
    if each and each != (base.needs.gpus or 1):
        words.say("/topology/processes_per_node", each, stated[1] if stated else base.part.source("/spec/containers/0/command"))
