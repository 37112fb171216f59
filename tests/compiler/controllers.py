"""The pods of a run, as the controllers of its objects make them, for tests that look at pods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from trainwright.manifest.kinds import GroupKind
from trainwright.operators import operator
from trainwright.operators.operator import Around, Made, makes_pods

Data = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod(operator.Pod):
    """With the environment of the container that trains."""

    made: Made
    """What it was made with."""
    written: Data
    """Its spec without what its controller has added: containers, volumes, mounts, variables, and fields."""

    @property
    def container(self) -> Data:
        """The container that trains, as it is written."""
        first: Data = self.written["containers"][0]
        return first

    @property
    def environment(self) -> dict[str, Any]:
        """Variable -> text, or a reference to a Secret; of two the later one holds."""
        return {entry["name"]: self._value(entry) for entry in self.spec["containers"][0].get("env", [])}

    def _value(self, entry: Data) -> Any:
        if "valueFrom" not in entry:
            return entry["value"]
        source = entry["valueFrom"]
        if key := source.get("configMapKeyRef"):
            maps = {one["metadata"]["name"]: one["data"] for one in self.made.objects if one["kind"] == "ConfigMap"}
            return maps[key["name"]][key["key"]] if key["name"] in maps else source
        if "fieldRef" not in source:
            return source
        path = source["fieldRef"]["fieldPath"]
        keyed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
        return self.manifest["metadata"][keyed[1]][keyed[2]] if keyed else f"{path} of {self.host}"


def pods(manifests: Sequence[Data], flags: Mapping[str, str | None] = MappingProxyType({})) -> list[Pod]:
    """Every pod of a run that holds ranks or starts them; ``flags`` are those for gangs, by the operator that has them."""
    around, found = Around(objects=manifests, gangs=flags), []
    for manifest in manifests:
        if makes_pods(manifest) and not _fetches_data(manifest):
            made = operator.pods(manifest, around)
            found += [
                Pod(
                    one.role, one.index, one.host, one.manifest, one.after,
                    made=made, written=_written(one.spec, list(_stated(manifests))),
                )
                for one in made.pods
                if one.role != "submitter"
            ]
            _find_each_other(made, [*manifests, *made.objects])
    return found


def _stated(node: Any) -> Iterator[tuple[str, Any]]:
    """Every entry of a pod's fields in manifests: the field, and what tells it from others there."""
    if isinstance(node, Mapping):
        if "containers" in node:
            yield from (("pod", field) for field in node)
        for field, value in node.items():
            if field in _KEYS and isinstance(value, list):
                yield from ((field, one.get(_KEYS[field])) for one in value if isinstance(one, Mapping))
            yield from _stated(value)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for value in node:
            yield from _stated(value)


_KEYS = {
    "containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath",
    "ports": "containerPort",
}  # fmt: skip


def _written(node: Any, stated: Sequence[tuple[str, Any]], field: str = "pod") -> Any:
    if isinstance(node, Mapping):
        kept = {key: _written(value, stated, key) for key, value in node.items() if field != "pod" or ("pod", key) in stated}
        return {key: value for key, value in kept.items() if value != [] or node[key] == []}
    if isinstance(node, list):
        key = _KEYS.get(field)
        return [_written(one, stated, "") for one in node if key is None or (field, one[key]) in stated]
    return node


def _fetches_data(manifest: Data) -> bool:
    return GroupKind.of(manifest) == GroupKind("batch", "Job") and manifest["spec"].get("completionMode") != "Indexed"


def _find_each_other(made: Made, objects: Sequence[Data]) -> None:
    """Ranks look for each other before they are ready, and all at once."""
    services = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "Service"}
    for pod in made.pods:
        if subdomain := pod.spec.get("subdomain"):
            assert services[subdomain]["selector"].items() <= pod.labels.items(), "nobody would find a pod by it"
            assert services[subdomain].get("publishNotReadyAddresses") or pod.role in ("launcher", "worker"), "of MPI alone"
    for one in objects:
        if one["kind"] == "Job" and one["spec"].get("completionMode") == "Indexed":
            assert one["spec"]["completions"] == one["spec"]["parallelism"], "ranks wait for each other"
        if one["kind"] == "Job" and "plugins" in one["spec"]:
            assert {"svc", "env"} <= one["spec"]["plugins"].keys(), "a pod of Volcano has neither name nor number else"
        if one["kind"] == "PodGroup":
            assert one["spec"]["minMember"] <= len(made.pods), "they would wait for ever"
