"""Policies as ValidatingAdmissionPolicies, so that the API server refuses what the review would.

What one object shows can be said in CEL: images, users, priorities, queues, labels. A cap on GPUs counts pods of all kinds, and a
function in Python is no CEL; those are listed as left out, with what does it instead.

Sources: kubernetes.io, Reference, Validating Admission Policy; k8s.io/api/admissionregistration/v1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

from trainwright.cluster import Cluster
from trainwright.findings.locate import tokens
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.kueue import QUEUE_LABEL
from trainwright.manifest.labels import FOUNDATION, RUN_LABEL, TEAM_LABEL
from trainwright.manifest.pods import CONTAINER_LISTS
from trainwright.operators import TARGETS
from trainwright.operators.added import added_by
from trainwright.policy.load import PolicyFile
from trainwright.policy.model import Policy, PythonPolicy

Tree = dict[str, Any]

POD = GroupKind("", "Pod")
OF_PODS = ("registries", "priorities", "forbid")
"""Demands on pods, which hold for a pod by itself too."""
CARRIERS = tuple(dict.fromkeys(target.kind for target in TARGETS.values()))
"""Kinds that carry a run."""
ANY_ITEM, ANY_KEY = "[]", "{}"
WITH_PODS = tuple(dict.fromkeys((POD, *CARRIERS, *(target.shared for target in TARGETS.values() if target.shared))))
"""Kinds that a pod or its template is in."""


class Admission(NamedTuple):
    """What a cluster can enforce, and what it cannot."""

    objects: list[Tree]
    """For each policy a ValidatingAdmissionPolicy and its binding."""
    left_out: list[str]
    """Lines for people: a policy, and what holds in its place."""


def admission(policies: Iterable[PolicyFile], cluster: Cluster, today: date) -> Admission:
    """The policies for the namespaces of a cluster's profile."""
    made = Admission([], [])
    for file in policies:
        scope = file.policy.applies_to
        namespaces = [name for name in cluster.namespaces if not scope.namespaces or name in scope.namespaces]
        if (scope.clusters and cluster.cluster not in scope.clusters) or not namespaces:
            continue
        reason = _cannot(file.policy, cluster)
        if reason:
            made.left_out.append(f"{file.policy.code} ({file.name}): {reason}")
        elif isinstance(file.policy, Policy):
            made.objects.extend(_objects(file.policy, cluster, namespaces, today))
    return made


def _cannot(policy: Policy | PythonPolicy, cluster: Cluster) -> str | None:
    """Why CEL cannot say it, and what can."""
    if isinstance(policy, PythonPolicy):
        return "a function in Python; `trainwright check` asks it"
    if policy.gpus:
        return "a cap on GPUs counts pods of many objects; set a ResourceQuota or the quota of a ClusterQueue"
    if (policy.queues or policy.applies_to.queues) and cluster.kueue is None:
        return "only Kueue has its queues in labels; name them in the queues of the scheduler's own configuration"
    return None


def _objects(policy: Policy, cluster: Cluster, namespaces: Sequence[str], today: date) -> list[Tree]:
    name = f"{policy.code.lower()}.policy.trainwright.dev"
    demand = next(demand for demand in _VALIDATIONS if getattr(policy, demand))
    alone = demand in OF_PODS and not policy.applies_to.teams and not policy.applies_to.queues
    kinds = WITH_PODS if alone else CARRIERS
    updated = (POD,) if alone else kinds if demand not in OF_PODS else ()
    conditions = list(_conditions(policy, today, kinds))
    definition = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "annotations": {"trainwright.dev/policy": f"{policy.code}: {policy.title}"}},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": _rules(kinds, updated)},
            **({"matchConditions": conditions} if conditions else {}),
            **({"variables": _variables(demand, kinds, cluster)} if demand in OF_PODS else {}),
            "validations": [
                {"expression": expression, "message": f"{policy.code}: {policy.title}; {policy.fix}", "reason": "Forbidden"}
                for expression in _VALIDATIONS[demand](policy)
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny" if policy.severity == "error" else "Warn"],
            "matchResources": {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}]
                }
            },
        },
    }
    return [definition, binding]


def _rules(kinds: Iterable[GroupKind], updated: Collection[GroupKind]) -> list[Tree]:
    return [
        {
            "apiGroups": [one.group], "apiVersions": ["*"], "operations": ["CREATE", *(["UPDATE"] if one in updated else [])],
            "resources": [f"{one.kind.lower()}s", *(["pods/ephemeralcontainers"] if one == POD else [])],
        }
        for one in kinds
    ]  # fmt: skip


def _conditions(policy: Policy, today: date, kinds: Sequence[GroupKind]) -> Iterator[Tree]:
    """Which objects it is about. An object that another one owns has no labels of the run: its owner was looked at."""
    scope = policy.applies_to
    now, before = (_changeable(policy, kinds, root) for root in ("object", "oldObject"))
    if now:
        yield {"name": "changed", "expression": f'request.operation != "UPDATE" || {now} != {before}'}
    granted = [one.run for one in policy.exempt if one.expires >= today]
    if granted:
        yield {"name": "exempt", "expression": f"!({_label_in(RUN_LABEL, granted)})"}
    if POD not in kinds:
        yield {"name": "unowned", "expression": "!has(object.metadata.ownerReferences)"}
        ((key, value),) = FOUNDATION.items()
        yield {"name": "run", "expression": f"!({_label_in(key, [value])})"}
    if scope.teams:
        yield {"name": "team", "expression": _label_in(TEAM_LABEL, scope.teams)}
    if scope.queues:
        yield {"name": "queue", "expression": _label_in(QUEUE_LABEL, scope.queues)}


def _changeable(policy: Policy, kinds: Sequence[GroupKind], root: str) -> str:
    """CEL for a list of what a policy looks at, and an update may change; empty where creation alone is looked at.

    An update of anything else has to pass: a controller removes a finalizer from an older object, or Kueue suspends it. Of a
    pod's containers their images may change, and ephemeral ones may be added; Kueue edits the templates of what carries a run.
    """
    if POD in kinds:
        return f"({_containers(f'dyn({root}).spec')})"
    keys = [QUEUE_LABEL] if policy.queues else list(policy.labels or ())
    labels = f"{root}.metadata.labels"
    said = (f"(has({labels}) && {text(key)} in {labels} ? [{labels}[{text(key)}]] : [])" for key in keys)
    return f"[{', '.join(said)}]" if keys else ""


def _variables(demand: str, kinds: Sequence[GroupKind], cluster: Cluster) -> list[Tree]:
    made = [{"name": "pods", "expression": pods_expression(kinds)}]
    return [*made, {"name": "images", "expression": _other_images(kinds, cluster)}] if demand == "registries" else made


def _other_images(kinds: Iterable[GroupKind], cluster: Cluster) -> str:
    """CEL for the list of images that controllers make containers of, besides those in pod templates."""
    parts = []
    for target in (one for one in TARGETS.values() if one.kind in kinds):
        named = [(_value(pointer), [pointer]) for pointer in target.images]
        named += [(text(one.image), [one.beside, one.template]) for one in added_by(target, cluster)]
        parts += [f"({' && '.join([_is(target.kind), *map(_has, needed)])} ? [dyn({image})] : [])" for image, needed in named]
    return " +\n".join(dict.fromkeys(parts))


def _value(pointer: str) -> str:
    return ".".join(("dyn(object)", *tokens(pointer)))


def _has(pointer: str) -> str:
    keys = tokens(pointer)
    return " && ".join(f"has({'.'.join(('dyn(object)', *keys[:count]))})" for count in range(1, len(keys) + 1))


def pods_expression(kinds: Iterable[GroupKind]) -> str:
    """CEL for the list of ``spec`` of all pods of an object of one of these kinds, by the places that targets state."""
    parts = []
    for kind in kinds:
        places = [pointer for target in TARGETS.values() for own, pointer in (*target.templates.values(), *target.helpers)
                  if own == kind]  # fmt: skip
        found = ["[dyn(object).spec]"] if kind == POD else [_specs(place) for place in _places(places)]
        parts += [f"({_is(kind)} ? {one} : [])" for one in found]
    return " +\n".join(parts)


def _is(kind: GroupKind) -> str:
    version = f"object.apiVersion.startsWith({text(f'{kind.group}/')})" if kind.group else 'object.apiVersion == "v1"'
    return f"object.kind == {text(kind.kind)} && {version}"


def _places(pointers: Sequence[str]) -> list[tuple[str, ...]]:
    """Places with a sign for any item of a list, and one for any key where two places differ in nothing else."""
    paths = dict.fromkeys(tuple(ANY_ITEM if key.isdigit() else key for key in tokens(pointer)) for pointer in pointers)
    return list(dict.fromkeys(_any_key(path, paths) for path in paths))


def _any_key(path: tuple[str, ...], paths: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    for index in range(len(path)):
        before, after = path[:index], path[index + 1 :]
        if any(other != path and other[:index] == before and other[index + 1 :] == after for other in paths):
            return (*before, ANY_KEY, *after)
    return path


def _specs(place: tuple[str, ...]) -> str:
    """CEL for the specs of the templates at a place; none where the object lacks it."""
    base, present = "dyn(object)", []
    for index, key in enumerate(place):
        if key in (ANY_ITEM, ANY_KEY):
            below = ".".join((*place[index + 1 :], "spec"))
            item = "one" if key == ANY_ITEM else f"{base}[one]"
            specs = f"{base}.filter(one, has({item}.{place[index + 1]})).map(one, {item}.{below})"
            break
        base = f"{base}.{key}"
        present.append(f"has({base})")
    else:
        specs = f"[{base}.spec]"
    return f"({' && '.join(present)} ? {specs} : [])"


def _containers(pod: str) -> str:
    """CEL for the list of all containers of a pod's ``spec``."""
    return " + ".join(f"(has({pod}.{field}) ? {pod}.{field} : [])" for field in CONTAINER_LISTS)


_CONTAINERS = _containers("pod")


def _registries(policy: Policy) -> list[str]:
    prefixes = texts(prefix.rstrip("/") for prefix in policy.registries or ())
    allowed = f"{prefixes}.exists(prefix, %s == prefix || %s.startsWith(prefix + '/'))"
    of_container, of_volume = allowed.replace("%s", "one.image"), allowed.replace("%s", "volume.image.reference")
    return [
        f"variables.pods.all(pod, ({_CONTAINERS}).all(one, !has(one.image) || {of_container}))",
        f"variables.images.all(image, {allowed.replace('%s', 'image')})",
        f"variables.pods.all(pod, !has(pod.volumes) || pod.volumes.all(volume, !has(volume.image) || {of_volume}))",
    ]


def _priorities(policy: Policy) -> list[str]:
    return [f"variables.pods.all(pod, has(pod.priorityClassName) && pod.priorityClassName in {texts(policy.priorities or ())})"]


def _forbid(policy: Policy) -> list[str]:
    return [_FORBIDDEN[name] for name in policy.forbid or ()]


def _of_container(field: str, default: str) -> str:
    """CEL for a field of the container's security context, or else of the pod's, or else a default."""
    states = f"has(%s.securityContext) && has(%s.securityContext.{field}) ? %s.securityContext.{field}"
    own, of_pod = (states.replace("%s", owner) for owner in ("one", "pod"))
    return f"({own} : {of_pod} : {default})"


_PRIVILEGED = "has(one.securityContext) && has(one.securityContext.privileged) && one.securityContext.privileged"
_FORBIDDEN = {
    "host-network": "variables.pods.all(pod, !has(pod.hostNetwork) || !pod.hostNetwork)",
    "host-path": "variables.pods.all(pod, !has(pod.volumes) || pod.volumes.all(volume, !has(volume.hostPath)))",
    "privileged": f"variables.pods.all(pod, ({_CONTAINERS}).all(one, !({_PRIVILEGED})))",
    # a user, and not root; or none, and a kubelet that refuses root
    "root": f"variables.pods.all(pod, ({_CONTAINERS}).all(one, {_of_container('runAsUser', '-1')} > 0 || "
    f"({_of_container('runAsUser', '-1')} == -1 && {_of_container('runAsNonRoot', 'false')})))",
}


def _queues(policy: Policy) -> list[str]:
    return [_label_in(QUEUE_LABEL, policy.queues or ())]


def _labels(policy: Policy) -> list[str]:
    return [_label_in(key, values) for key, values in (policy.labels or {}).items()]


_VALIDATIONS = {
    "registries": _registries, "priorities": _priorities, "forbid": _forbid, "queues": _queues, "labels": _labels,
}


def _label_in(key: str, values: Iterable[str]) -> str:
    """CEL for: the object has a label, with one of these values, or with any where there are none."""
    there = f"has(object.metadata.labels) && {text(key)} in object.metadata.labels"
    listed = list(values)
    return f"{there} && object.metadata.labels[{text(key)}] in {texts(listed)}" if listed else there


def texts(values: Iterable[str]) -> str:
    return f"[{', '.join(map(text, values))}]"


def text(value: str) -> str:
    """A string literal of CEL: what is not plain ASCII by its code point, so that no text can end it."""
    plain = (one if one.isascii() and one.isprintable() and one not in "\"\\" else f"\\U{ord(one):08x}" for one in value)
    return f'"{"".join(plain)}"'
