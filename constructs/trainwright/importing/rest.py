"""What pods have that no word of a run says, as overrides: the difference between the original's pods and those of the run."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings import CompileError
from trainwright.importing.emitted import ONLY_ORDER, Aim
from trainwright.importing.fit import Compiler, Fitted
from trainwright.importing.neighbours import Level, keeps_apart, named_after, shares
from trainwright.importing.pods import main_of
from trainwright.importing.propose import Proposal
from trainwright.importing.words import Data, removed
from trainwright.manifest.pods import mounted_volumes
from trainwright.manifest.template.scheduling import PREFERRED, REQUIRED
from trainwright.objects.fields import items, mapping, text
from trainwright.operators import operator
from trainwright.operators.said import Part
from trainwright.overrides.merge import is_keyed, merge, merge_key

Tree = Mapping[str, Any]

_SAID = frozenset({
    "containers", "initContainers", "ephemeralContainers", "volumes", "restartPolicy", "nodeSelector", "nodeName", "hostname",
    "subdomain", "serviceAccount", "serviceAccountName", "imagePullSecrets", "terminationGracePeriodSeconds", "resourceClaims",
    "schedulingGates", "priorityClassName", "priority", "runtimeClassName", "hostNetwork", "activeDeadlineSeconds",
    "preemptionPolicy",
})  # fmt: skip
"""Fields of a pod that a run has words for, or that are the plan's."""
_SAID_OF_MAIN = frozenset({
    "name", "image", "imagePullPolicy", "command", "args", "workingDir", "ports", "resources", "volumeMounts", "envFrom",
})  # fmt: skip
_SAME = {"dnsPolicy": "ClusterFirst", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
         "enableServiceLinks": True, "schedulerName": "default-scheduler"}  # fmt: skip
"""What the API server writes where nothing is said."""


def with_overrides(proposal: Proposal, fitted: Fitted, compiler: Compiler) -> Fitted:
    """The same with an override for each part that is allowed one; all at once where they all are."""
    found = list(_missing(proposal, fitted))
    together = _tried(fitted, compiler, found)
    if (aim := proposal.aim) is not None:
        nearest = min((one for one in (fitted, together) if one), key=lambda one: aim.distance(one.compiled))
        return with_words_as_patches(with_patches(nearest, compiler, aim), compiler, aim)
    if together is not None:
        return together
    for one in found:
        fitted = _tried(fitted, compiler, [one]) or fitted
    return fitted


def with_patches(fitted: Fitted, compiler: Compiler, aim: Aim) -> Fitted:
    """Of a run that was emitted: with a patch of each object that still differs, where patches bring it nearer."""
    for kind, patch in aim.patches(fitted.compiled):
        data = copy.deepcopy(fitted.data)
        objects = data.setdefault("overrides", {}).setdefault("objects", [])
        objects.append({"target": data["target"], "kind": kind, "patch": patch})
        try:
            compiled = compiler(data)
        except CompileError:
            continue
        if aim.distance(compiled) < aim.distance(fitted.compiled):
            fitted = Fitted(data, compiled, fitted.dropped)
    return fitted


def with_words_as_patches(fitted: Fitted, compiler: Compiler, aim: Aim) -> Fitted:
    """Where nothing but the order of keys differs: one that an override has stands behind those of the plan."""
    for key in list(fitted.data):
        if aim.distance(fitted.compiled) != ONLY_ORDER:
            break
        try:
            data = {name: value for name, value in fitted.data.items() if name != key}
            other = with_patches(Fitted(data, compiler(data), fitted.dropped), compiler, aim)
        except CompileError:
            continue
        fitted = min(fitted, other, key=lambda one: aim.distance(one.compiled))
    return fitted


def _tried(fitted: Fitted, compiler: Compiler, patches: list[tuple[str, Data]]) -> Fitted | None:
    if not patches:
        return None
    data = copy.deepcopy(fitted.data)
    overrides = data.setdefault("overrides", {}).setdefault("pod", {})
    for role, patch in patches:
        overrides[role] = merge(overrides.get(role, {}), patch)
    try:
        return Fitted(data, compiler(data), fitted.dropped)
    except CompileError:
        return None


def _missing(proposal: Proposal, fitted: Fitted) -> Iterator[tuple[str, Data]]:
    """Role and patch, one for each value that its pods lack."""
    ours = _pods_of(fitted)
    for part in proposal.said.parts:
        pod = ours.get(part.role)
        if pod is not None:
            for patch in _of_pod(part, proposal.level, pod, text(proposal.manifest.data, "/metadata/name")):
                yield part.role, patch


def _pods_of(fitted: Fitted) -> Mapping[str, Tree]:
    """Role -> the spec of its first pod, as its controller makes it."""
    installed = fitted.compiled.cluster.runtimes.values()
    objects = [*fitted.compiled.manifests, *(one.manifest for one in installed)]
    carrier = next((one for one in objects if operator.makes_pods(one)), None)
    if carrier is None:
        return {}
    made = operator.made(carrier, operator.Around(objects))
    return {pod.role: pod.spec for pod in reversed(made.every_pod)} if made else {}


def _of_pod(part: Part, level: Level | None, pod: Tree, name: str) -> Iterator[Data]:
    spec, number = mapping(part.template, "/spec"), main_of(part)
    if part.ranks and keeps_apart(part.template, name, part.marks):
        spec = removed(spec, ["affinity", "podAntiAffinity"])
    if part.ranks and level and not level.of_queue and shares(pod, level):
        spec = removed(spec, ["affinity", "podAffinity"])
    for patch in _differences({key: value for key, value in spec.items() if key not in _SAID}, pod):
        if not (name and "affinity" in patch and named_after(name, patch, mapping(part.template, "/metadata/labels"))):
            yield patch
    mounted = mounted_volumes(spec)
    for _, volume in items(spec, "/volumes"):
        if text(volume, "/name") not in mounted:  # by what somebody else puts into the pod
            yield {"volumes": [dict(volume)]}
    main, ours = mapping(part.template, f"/spec/containers/{number}"), pod["containers"][0]
    theirs = {key: value for key, value in main.items() if key not in _SAID_OF_MAIN}
    theirs["env"] = [dict(one) for _, one in items(main, "/env") if "resourceFieldRef" in mapping(one, "/valueFrom")]
    for patch in _differences(theirs, ours):
        yield {"containers": [{"name": ours["name"], **patch}]}


def _differences(theirs: Tree, ours: Tree, field: str = "") -> Iterator[Data]:
    """Merge patches, each with one value that ours lacks or has otherwise."""
    for key, value in theirs.items():
        if value in ({}, [], None) or _SAME.get(key) == value or (key in ours and ours[key] == value):
            continue
        if field == "securityContext" and key in ("runAsUser", "runAsGroup", "runAsNonRoot", "fsGroup", "privileged"):
            continue
        mine = ours.get(key, {} if key == "securityContext" else None)
        if isinstance(value, Mapping) and isinstance(mine, Mapping):
            yield from ({key: patch} for patch in _differences(value, mine, key))
        elif isinstance(value, list) and is_keyed(value, key) and isinstance(ours.get(key), list):
            name = merge_key(key)
            for item in value:
                same: Tree = next((one for one in ours[key] if one.get(name) == item[name]), {})
                yield from ({key: [{name: item[name], **patch}]} for patch in _differences(item, {name: item[name], **same}))
        elif key in (REQUIRED, PREFERRED) and isinstance(value, list) and all(_bare(one) in ours.get(key, []) for one in value):
            continue
        elif key == "tolerations" and isinstance(value, list):
            lacking = [one for one in value if one not in ours.get(key, [])]
            if lacking:
                yield {key: lacking}
        else:
            yield {key: copy.deepcopy(value)}


def _bare(node: Any) -> Any:
    """Without what is empty, which says nothing."""
    if isinstance(node, list):
        return [_bare(one) for one in node]
    if isinstance(node, Mapping):
        return {key: bare for key, value in node.items() if (bare := _bare(value)) not in ({}, [], None)}
    return node
