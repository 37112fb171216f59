"""A profile of the cluster that manifests were written for, as far as they show it; the rest is guessed, and says so."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwright.cluster.runtimes import digest_of, held_at, without_server_fields
from trainwright.findings.locate import escape
from trainwright.importing.accounting.matching import references
from trainwright.importing.pods import Needs
from trainwright.importing.propose import Proposal, dns_label, unlike
from trainwright.importing.read import Given
from trainwright.importing.words import Data
from trainwright.manifest.gang import SCHEDULERS
from trainwright.objects.fields import items, mapping, text, texts
from trainwright.objects.metadata import not_a_subdomain
from trainwright.operators import TARGETS
from trainwright.operators.kueue.releases import RELEASES as KUEUE
from trainwright.operators.said import Part
from trainwright.rules.cluster.profile import KNOWN_KUBERNETES
from trainwright.starter.discovery import GPU_MEMORY, LEVELS, SPOT, gpu_model
from trainwright.targets import TARGET_MODULES
from trainwright.units import Bytes, Cpu, UnitError

KUBERNETES = f"1.{min(34, KNOWN_KUBERNETES[-1])}"
_CPUS, _MEMORY = 192, 2000
"""CPUs and GiB of a node that nobody describes: as much as a large machine has, so that no run is refused for a guess."""
_INSTANCES = {
    "p6": "B200", "p5e": "H200", "p5en": "H200", "p5": "H100", "p4d": "A100", "p4de": "A100", "g6": "L4", "g5": "A10G",
    "g4dn": "T4", "a4": "B200", "a3": "H100", "a2": "A100", "g2": "L4", "nd96isr": "H100",
}  # fmt: skip
"""First part of the name of an instance -> its GPU."""
_KINDS = {"efa": "efa", "roce": "roce"}


@dataclass
class Draft:
    """A profile, and what in it no manifest says."""

    data: Data
    guesses: dict[str, str] = field(default_factory=dict)
    """Pointer in the profile -> why it may be wrong."""
    runtimes: dict[str, Data] = field(default_factory=dict)
    """File beside the profile -> the runtime that it holds."""

    @property
    def written(self) -> Data:
        """Without what stands in files of its own."""
        held = {name: {key: value for key, value in entry.items() if key != "manifest"}
                for name, entry in self.data.get("runtimes", {}).items()}  # fmt: skip
        return {**self.data, **({"runtimes": held} if held else {})}


def draft(name: str, proposals: Sequence[Proposal], given: Given, relaxed: Container[str] = ()) -> Draft:
    """The profile for all of them; each is told the pools that it gets there. Namespaces that are ``relaxed`` demand nothing."""
    made = Draft({"cluster": name, "kubernetes": KUBERNETES})
    made.guesses["/kubernetes"] = "no manifest says it"
    _operators(made, proposals)
    _runtimes(made, name, proposals, given)
    finding_queues = "kueue" in made.data and "topology_aware" not in made.data["kueue"]
    pools = _Pools(made, {name for one in proposals for needs in one.needs.values() for name in _of_pool(needs, one.nodes)})
    for proposal in proposals:
        for role, needs in proposal.needs.items():
            pool = pools.name_for(needs)
            if not role:
                proposal.words.say("/node_pool", pool)
            else:
                proposal.words.say(f"/roles/{role}/node_pool", pool)
            _without_adapters(proposal, role, needs)
        if level := proposal.level_beside(finding_queues=finding_queues):
            proposal.put_together(_level(made.data.setdefault("topology", {}), level.label))
    made.data["node_pools"] = pools.found
    for proposal in proposals:
        _namespace(made, proposal, given, relaxed)
    return made


def _level(levels: Data, label: str) -> str:
    """The name of a level, made where there is none of that label."""
    named = next((name for name, one in levels.items() if one["label"] == label), "")
    if not named:
        named = unlike(LEVELS.get(label) or dns_label(label.rpartition("/")[2]) or "level", levels)
        levels[named] = {"label": label}
    return named


def _of_pool(needs: Needs, nodes: int) -> Mapping[str, int]:
    """Adapters that come with the GPUs of a pool, where several nodes have some."""
    return needs.adapters if needs.gpus and nodes > 1 and len(needs.adapters) == 1 else {}


def _without_adapters(proposal: Proposal, role: str, needs: Needs) -> None:
    """Those of the pool are not said again."""
    if role or not _of_pool(needs, proposal.nodes):
        return
    words = proposal.words
    words.data = words.without(f"/resources/devices/{escape(next(iter(needs.adapters)))}")
    ranks = {one.role for one in proposal.said.parts if one.ranks}
    for parts in (parts for name, parts in words.data.get("roles", {}).items() if name in ranks):
        devices = parts.get("resources", {}).get("devices", {})
        if parts.get("resources", {}) and devices == dict(needs.adapters):
            del parts["resources"]["devices"]


class _Pools:
    """Kinds of nodes, told apart by what selects them."""

    def __init__(self, made: Draft, adapters: Container[str]) -> None:
        self.made, self._adapters = made, adapters
        self.found: dict[str, Data] = {}
        self._keys: dict[str, str] = {}

    def name_for(self, needs: Needs) -> str:
        """The pool of pods with these needs, made where there is none."""
        taints, others = _taints(needs)
        adapters = {name: count for name, count in needs.adapters.items() if len(needs.adapters) == 1 and name in self._adapters}
        key = repr((sorted(needs.labels.items()), taints, others, needs.gpu, sorted(adapters)))
        if key not in self._keys:
            self._keys[key] = self._new(needs, taints, others, adapters)
        name = self._keys[key]
        self._grow(self.found[name], needs)
        return name

    def _new(self, needs: Needs, taints: list[Data], others: list[Data], adapters: Mapping[str, int]) -> str:
        model = _model(needs.labels)
        base = (model or "gpu").lower() if needs.gpus else "cpu"
        name = unlike(base, self.found)
        where = f"/node_pools/{name}"
        pool: Data = {"cpus": _CPUS, "memory": f"{_MEMORY}Gi"}
        self.made.guesses[f"{where}/cpus"] = "a guess, as is the memory: CPUs of one node"
        if needs.gpus:
            pool["gpu"] = {"model": model or "GPU", "memory": f"{GPU_MEMORY.get(model, 80)}Gi", "per_node": 1}
            if needs.gpu != "nvidia.com/gpu":
                pool["gpu"]["resource"] = needs.gpu
            self.made.guesses[f"{where}/gpu"] = "as far as the manifests show it" if model else "no manifest names the model"
        for resource, count in adapters.items():
            kind = next((kind for word, kind in _KINDS.items() if word in resource), "infiniband")
            links = count if kind == "efa" or count > 1 else 8
            pool["fabric"] = {
                "kind": kind,
                "links": links,
                "gigabits_per_link": 100 if kind == "efa" else 400,
                "resource": resource,
                "resource_count": 1,
            }
            self.made.guesses[f"{where}/fabric"] = "links and their rate are guesses"
        if needs.labels:
            pool["labels"] = dict(needs.labels)
        if taints:
            pool["taints"] = taints
        for label, (value, notice) in SPOT.items():
            if needs.labels.get(label) == value:
                pool["spot"] = {"notice": notice}
        if others:
            pool["pods"] = {"tolerations": others}
        self.found[name] = pool
        return name

    def _grow(self, pool: Data, needs: Needs) -> None:
        """At least as large as the largest pod."""
        if needs.gpus:
            pool["gpu"]["per_node"] = min(max(pool["gpu"]["per_node"], needs.gpus, 8 if needs.gpus > 4 else 1), 16)
        for count in needs.adapters.values():
            if "fabric" in pool:
                pool["fabric"]["resource_count"] = max(pool["fabric"]["resource_count"], count)
        try:
            if needs.cpu and Cpu.parse(needs.cpu).millicores > 900 * int(pool["cpus"]):
                pool["cpus"] = -(-Cpu.parse(needs.cpu).millicores // 800)
            if needs.memory and Bytes.parse(needs.memory).bytes > 0.9 * Bytes.parse(pool["memory"]).bytes:
                pool["memory"] = f"{-(-Bytes.parse(needs.memory).bytes * 5 // 4 // 2**30)}Gi"
        except UnitError:
            pass  # said of the run, where it stands


def _taints(needs: Needs) -> tuple[list[Data], list[Data]]:
    """Taints that pods tolerate, and what they tolerate besides: any value, or any effect."""
    taints: list[Data] = []
    others: list[Data] = []
    for one in needs.tolerations:
        key, value, effect = text(one, "/key"), one.get("value"), text(one, "/effect")
        if not key or "tolerationSeconds" in one:
            continue
        if effect and text(one, "/operator", "Equal") == "Exists":
            taints.append({"key": key, **({} if effect == "NoSchedule" else {"effect": effect})})
        elif effect and value not in (None, ""):
            taints.append({"key": key, "value": str(value), **({} if effect == "NoSchedule" else {"effect": effect})})
        else:
            others.append(
                {"key": key, **({} if value in (None, "") else {"value": str(value)}), **({"effect": effect} if effect else {})}
            )
    return taints, others


def _model(labels: Mapping[str, str]) -> str:
    """Of the GPU, by the labels of its nodes: a product, an accelerator, or the name of an instance."""
    for value in labels.values():
        if model := gpu_model(value):
            return model
    for value in labels.values():
        first = re.split(r"[.\-_]", value.lower().removeprefix("standard_").removeprefix("ml."))[0]
        if first in _INSTANCES:
            return _INSTANCES[first]
    return ""


def _operators(made: Draft, proposals: Sequence[Proposal]) -> None:
    releases: dict[str, tuple[int, ...]] = {}
    for proposal in proposals:
        target, said = TARGETS[proposal.said.target], proposal.said.release
        for one in (target.operator, *target.depends_on):
            if one is not None:
                wanted = said if said and one is target.operator else one.releases.last
                releases[one.name] = max(releases.get(one.name, wanted), wanted)
    operators: Data = {name: {"version": f"{'.'.join(map(str, release))}.0"} for name, release in releases.items()}
    if operators:
        made.data["operators"] = operators
        made.guesses["/operators"] = "the newest releases that are known here and read the manifests"
    volcano = any(needs.scheduler == "volcano" for one in proposals for needs in one.needs.values())
    if volcano or any(TARGET_MODULES[one.said.target][0].startswith("volcano.") for one in proposals):
        made.data["scheduling"] = {"gang": "volcano", "version": ".".join(map(str, SCHEDULERS["volcano"].releases.last))}
        for one in operators.values() if volcano else ():
            one["gang_scheduler"] = "volcano"
    elif any("queue" in one.words.data for one in proposals):
        made.data["kueue"] = {"version": f"{'.'.join(map(str, KUEUE.last))}.0"}
        levels = [one.level for one in proposals if "queue" in one.words.data and one.level]
        if levels and not any(level.of_queue for level in levels):
            made.data["kueue"]["topology_aware"] = False
            made.guesses["/kueue/topology_aware"] = "pods in a queue look for their like by themselves"


def _runtimes(made: Draft, cluster: str, proposals: Sequence[Proposal], given: Given) -> None:
    """Those that runs refer to: as the files have them, or as Trainer's release does."""
    stated = {text(one.data, "/metadata/name") for one in given.around}
    for name, entry in (entry_of(one.runtime) for one in proposals if one.runtime):
        file = held_at(cluster, name)
        made.data.setdefault("runtimes", {})[name] = {"file": file, **entry}
        made.runtimes[file] = entry["manifest"]
        if name not in stated:
            why = f"as Trainer's own release has it; `trainwright runtimes {cluster} FILE` writes what the cluster has"
            made.guesses[f"/runtimes/{escape(name)}"] = why


def entry_of(runtime: Mapping[str, Any]) -> tuple[str, Data]:
    """What a profile calls a runtime, and what it has of it."""
    held = without_server_fields(runtime)
    return text(held, "/metadata/name"), {"digest": digest_of(held), "manifest": held}


def _namespace(made: Draft, proposal: Proposal, given: Given, relaxed: Container[str]) -> None:
    run = proposal.words.data
    spaces = made.data.setdefault("namespaces", {})
    space = spaces.setdefault(proposal.namespace, {"managed": False, "pod_security": "restricted"})
    if proposal.namespace in relaxed or not all(map(_is_restricted, proposal.said.parts)):
        space["pod_security"] = "privileged"
    made_for_pods = proposal.said.claims
    claims = {**made_for_pods, **{text(one.data, "/metadata/name"): one.data for one in given.of_kind("PersistentVolumeClaim")}}
    of_runtime = [name for kind, name in references(proposal.runtime or {}) if kind == "PersistentVolumeClaim"]
    for name in dict.fromkeys([*claims_of(run), *of_runtime]):
        if not_a_subdomain(name):
            continue  # which is said of the run, where it stands
        claim = space.setdefault("claims", {})[name] = _claim(claims.get(name))
        if name in made_for_pods:
            claim.pop("access", None)
            kind = text(proposal.manifest.data, "/kind")
            made.guesses[f"/namespaces/{escape(proposal.namespace)}/claims/{escape(name)}"] = f"of the {kind}"
    queue = run.get("queue")
    if queue and "kueue" in made.data and not not_a_subdomain(queue):
        queues = {text(one.data, "/metadata/name"): text(one.data, "/spec/clusterQueue") for one in given.of_kind("LocalQueue")}
        stated = {"cluster_queue": queues[queue]} if queues.get(queue) else {"managed": False}
        space.setdefault("queues", {})[queue] = stated


def _is_restricted(part: Part) -> bool:
    """Whether its containers give up what the level `restricted` asks them to."""
    found = [mapping(one, "/securityContext") for _, one in items(part.template, "/spec/containers")]
    pod = mapping(part.template, "/spec")
    if pod.get("hostNetwork") is True or any("hostPath" in one for _, one in items(pod, "/volumes")):
        return False
    return all(one.get("allowPrivilegeEscalation") is False and texts(one, "/capabilities/drop") == ["ALL"] for one in found)


def claims_of(node: Any) -> Sequence[str]:
    """Every claim that is mounted somewhere."""
    if isinstance(node, dict):
        own = [node["claim"]] if isinstance(node.get("claim"), str) and "request" not in node else []
        return [*own, *(name for key, value in node.items() if key != "resource_claims" for name in claims_of(value))]
    return [name for one in node for name in claims_of(one)] if isinstance(node, list) else []


def _claim(stated: Mapping[str, Any] | None) -> Data:
    """As it stands in the files; one that does not is there already."""
    if stated is None:
        return {"managed": False}
    spec = mapping(stated, "/spec")
    size = mapping(spec, "/resources/requests").get("storage")
    kind = {"storage_class": text(spec, "/storageClassName")} if text(spec, "/storageClassName") else {}
    modes = texts(spec, "/accessModes")
    return {**({"size": str(size)} if size else {"managed": False}), **kind, **({"access": modes[0]} if modes else {})}
