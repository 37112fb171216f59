"""The objects in files, from a cluster or from templates: without what the server wrote, and told apart by what they are for."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from trainwright.findings import CompileError, Finding, Severity, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import at, escape, pointer_to
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.labels import FOUNDATION, MANAGED
from trainwright.objects.fields import items, mapping, text
from trainwright.operators import operator
from trainwright.validate.manifests import Manifest, manifests_in

WRAPPERS = {
    GroupKind("workload.codeflare.dev", "AppWrapper"): (
        ("/spec/components", "template"),
        ("/spec/resources/GenericItems", "generictemplate"),
    ),
}
"""Kind -> the lists of objects in it, and the field of each that has one."""
RUNTIMES = {GroupKind("trainer.kubeflow.org", kind) for kind in ("TrainingRuntime", "ClusterTrainingRuntime")}
ENDLESS = {GroupKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet")}
"""Kinds that look like runs, and whose pods never end."""
_OF_THE_SERVER = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "managedFields", "selfLink", "ownerReferences", "finalizers",
)  # fmt: skip
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OF_CONTROLLERS = re.compile(r"(batch\.kubernetes\.io/)?(controller-uid|job-name)|job-name")
_RETRIES = frozenset({"backoffLimit", "maxRestarts", "maxRetry"})
"""Fields of which the API server has one default, and a run another."""
_BLANK = re.compile(r"\{\{|\$\{?[A-Za-z_][A-Za-z0-9_]*\}?|<[a-z][a-z0-9 _-]*>", re.IGNORECASE)
"""What a template has where a value belongs: Go templates, envsubst, and words in angle brackets."""
_NUMBERS = frozenset({
    "replicas", "parallelism", "completions", "numNodes", "minReplicas", "maxReplicas", "slotsPerWorker", "minAvailable",
    "backoffLimit",
})  # fmt: skip
_TEXTS = frozenset({
    "image", "claimName", "namespace", "schedulerName", "priorityClassName", "serviceAccountName", "secretName",
    "runtimeClassName",
})  # fmt: skip


class Source(NamedTuple):
    """One file as it was given."""

    name: str
    text: str


@dataclass(frozen=True)
class Given:
    """What the files hold."""

    workloads: tuple[Manifest, ...]
    """Objects that carry runs, in their order."""
    around: tuple[Manifest, ...]
    """All others."""
    findings: tuple[Finding, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    """File -> its text, for its comments."""

    def of_kind(self, *kinds: str) -> Iterator[Manifest]:
        return (one for one in self.around if one.data.get("kind") in kinds)


def read(sources: Sequence[Source]) -> Given:
    """The objects of files.

    Raises:
        CompileError: what cannot be read, or is a template that nobody has rendered.
    """
    objects: list[Manifest] = []
    findings: list[Finding] = []
    for source in sources:
        manifests, problems = manifests_in(source.text, source.name)
        if errors := [one for one in problems if one.severity is Severity.ERROR]:
            raise CompileError(_as_template(source) or errors)
        findings += problems
        manifests = [one for one in manifests if _is_object(one.data)]
        objects += (inner for one in manifests for inner in _unwrapped(_cleaned(one)))
    if blanks := [one for manifest in objects for one in _blanks(manifest)]:
        raise CompileError(blanks[:20])
    return _sorted(objects, findings, {source.name: source.text for source in sources})


def _is_object(data: Mapping[str, Any]) -> bool:
    """Values of a chart, kustomizations and other files of tools are none."""
    return isinstance(data.get("apiVersion"), str) and isinstance(data.get("kind"), str)


def _as_template(source: Source) -> list[Finding]:
    """A text that is no YAML because it is a template says so once."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if re.search(r"^[^#'\"]*\{\{", line):
            where = Where(source.name, number, line.index("{{") + 1)
            fix = "render it first: `helm template . | trainwright import -`, or `kustomize build . | trainwright import -`"
            return [found("TW104", where, "`{{` begins a template that nobody has rendered, and no value", fix)]
    return []


def _blanks(manifest: Manifest) -> Iterator[Finding]:
    """Places of numbers and names that hold a blank of a template."""
    for keys, value in _scalars(manifest.data, ()):
        key = keys[-1]
        counts = key in _NUMBERS or keys[-2:-1] in [("limits",), ("requests",)] or keys == ("metadata", "name")
        if isinstance(value, str) and (match := _BLANK.search(value)) and (counts or (key in _TEXTS and keys[0] != "metadata")):
            where = manifest.where(pointer_to(keys))
            message = f"`{key}` is {value[:60]!r}, with the blank {match[0]} of a template in it"
            fix = "fill it in first, with `helm template`, `kustomize build`, or `envsubst < FILE | trainwright import -`"
            yield found("TW104", where, message, fix)


def _scalars(node: Any, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        yield from _scalars(value, (*keys, key)) if isinstance(value, dict | list) else [((*keys, key), value)]


def _unwrapped(manifest: Manifest) -> Iterator[Manifest]:
    """The objects in a wrapper, with the queue and the namespace that it has."""
    lists = WRAPPERS.get(GroupKind.of(manifest.data))
    if lists is None:
        yield manifest
        return
    labels, namespace = mapping(manifest.data, "/metadata/labels"), text(manifest.data, "/metadata/namespace")
    for pointer, held in lists:
        for number, item in items(manifest.data, pointer):
            inner = item.get(held)
            if not isinstance(inner, dict) or not _is_object(inner):
                continue
            data = copy.deepcopy(inner)
            metadata = data["metadata"] if isinstance(data.get("metadata"), dict) else data.setdefault("metadata", {})
            queue = {key: value for key, value in labels.items() if key.startswith("kueue.x-k8s.io/")}
            if queue and operator.makes_pods(data):
                metadata["labels"] = {**mapping(metadata, "/labels"), **queue}
            if namespace:
                metadata.setdefault("namespace", namespace)
            yield from _unwrapped(_cleaned(replace(manifest, data=data, pointer=f"{manifest.pointer}{pointer}/{number}/{held}")))


def _cleaned(manifest: Manifest) -> Manifest:
    """Without what the API server and controllers write; of an object from a cluster also without their defaults."""
    data = {key: value for key, value in manifest.data.items() if key != "status"}
    stated = data.get("metadata")
    metadata = dict(stated) if isinstance(stated, dict) else {}
    stored = "uid" in metadata or "resourceVersion" in metadata
    owned = any(text(one, "/kind") for _, one in items(metadata, "/ownerReferences"))
    for key in _OF_THE_SERVER:
        metadata.pop(key, None)
    if annotations := mapping(metadata, "/annotations"):
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
        if not metadata["annotations"]:
            del metadata["annotations"]
    if owned:
        metadata["ownerReferences"] = stated["ownerReferences"] if isinstance(stated, dict) else []
    data["metadata"] = metadata
    return replace(manifest, data=as_applied(data) if stored else data)


def as_applied(stored: dict[str, Any]) -> dict[str, Any]:
    """What somebody applied, of an object from a cluster: without what the API server and controllers wrote into its spec."""
    if not isinstance(stored.get("spec"), dict):
        return stored
    return _without_defaults(_without_selector(copy.deepcopy(stored)))


def _without_selector(data: dict[str, Any]) -> dict[str, Any]:
    """Labels by which controllers find what they made."""
    if GroupKind.of(data) == GroupKind("batch", "Job"):
        data["spec"].pop("selector", None)
        for labels in (at(data, "/metadata/labels"), at(data, "/spec/template/metadata/labels")):
            for key in [key for key in labels or () if isinstance(labels, dict) and _OF_CONTROLLERS.fullmatch(key)]:
                del labels[key]
        data["spec"].pop("suspend", None)
    return data


def _without_defaults(data: dict[str, Any]) -> dict[str, Any]:
    """Each value goes that the API server would write again, but for retries."""
    whole = copy.deepcopy(operator.defaults(data))  # which may be the very object
    for keys, _ in sorted(_scalars(data.get("spec"), ("spec",)), key=lambda one: -len(one[0])):
        owner = at(data, pointer_to(keys[:-1]))
        if not isinstance(owner, dict) or keys[-1] not in owner or keys[-1] in _RETRIES:
            continue
        kept = owner.pop(keys[-1])
        if operator.defaults(data) != whole:
            owner[keys[-1]] = kept
    return data


def _sorted(objects: Sequence[Manifest], findings: Iterable[Finding], texts: Mapping[str, str]) -> Given:
    workloads, around, notes = [], [], list(findings)
    named = {text(one.data, "/spec/runtimeRef/name") for one in objects}
    for one in objects:
        kind = GroupKind.of(one.data)
        made = [text(owner, "/kind") for _, owner in items(one.data, "/metadata/ownerReferences")]
        if kind in ENDLESS:
            message = f"{kind.kind} {_name(one)} carries no run: its pods restart for ever, so that it would never be done"
            notes.append(found("TW718", one.where("/kind"), message, "write it as a JobSet, whose Jobs end"))
        elif made and operator.makes_pods(one.data):
            message = f"{kind.kind} {_name(one)} is made by a {made[0]}, which says all of it"
            notes.append(found("TW718", one.where(""), message, f"import the {made[0]}"))
        elif _carries(one, named):
            workloads.append(one)
        else:
            around.append(one)
    return Given(tuple(workloads), tuple(around), tuple(notes), texts)


def _carries(manifest: Manifest, named: set[str]) -> bool:
    """Whether it is a run; a runtime is one where no TrainJob beside it names it. What the foundation has is
    none."""
    data, kind = manifest.data, GroupKind.of(manifest.data)
    labels = mapping(data, "/metadata/labels").items()
    if kind in RUNTIMES:
        return not MANAGED.items() <= labels and text(data, "/metadata/name") not in named
    if FOUNDATION.items() <= labels:
        return False
    return operator.makes_pods(data) and kind.kind != "RayCluster"


def _name(manifest: Manifest) -> str:
    return text(manifest.data, "/metadata/name") or text(manifest.data, "/metadata/generateName") or "without a name"


def label(key: str) -> str:
    """The pointer of a label or annotation below the field that has it."""
    return f"/{escape(key)}"
