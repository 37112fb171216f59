"""Where the pods of a run go: to which nodes, near to which others, and past which taints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwright.cluster import NodePool
from trainwright.findings.locate import escape
from trainwright.handshake import Role
from trainwright.manifest import kueue
from trainwright.manifest.labels import IDENTITY_LABEL, ROLE_LABEL, namespace_of, object_annotations, object_labels
from trainwright.manifest.provenance import Tree, Why
from trainwright.plan import Resolution
from trainwright.plan.stated import Stated, nearest
from trainwright.run import NodeLabel, PodAffinity, PodTerm, Run, Toleration

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEIGHT = 100
"""Of a place that pods would like to share: as much as there is."""


def top_labels(resolution: Resolution) -> Tree:
    """Labels of the object that carries the run."""
    return {**object_labels(resolution.run), **kueue.queue_labels(resolution)}


def top_metadata(resolution: Resolution) -> Tree:
    """Of the object that carries the run."""
    plan = resolution.plan
    annotations = object_annotations(resolution.run)
    return {"name": plan.name, "namespace": namespace_of(plan), "labels": top_labels(resolution), **annotations}


def placement(resolution: Resolution, role: Role) -> Tree:
    """What brings a role's pods to their nodes, past their taints, and away from a node that is lost."""
    name, pool = resolution.pool_of(role)
    return pool_placement(name, pool, off_lost_nodes(resolution, pool))


def off_lost_nodes(resolution: Resolution, pool: NodePool) -> list[Why]:
    """Tolerations that end. A profile that tolerates one of these taints in its pool decides that itself."""
    run = resolution.run
    lost, source = (run.node_lost, "run:/node_lost") if run.node_lost else (resolution.cluster.node_lost, "cluster:/node_lost")
    decided = {one.key for one in pool.pods.tolerations}
    return [
        Why({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": lost.seconds}, source, why)
        for key, why in _LOST.items()
        if key not in decided
    ]


_LOST = {
    "node.kubernetes.io/not-ready": "the pod is evicted from a node that is not well for so long; the API server would add 300 s",
    "node.kubernetes.io/unreachable": "the same of a node that is silent; its peers wait for a new pod meanwhile",
}


def pool_placement(name: str, pool: NodePool, further: Sequence[Why] = ()) -> Tree:
    """What brings a pod to the nodes of a pool, and past their taints; ``further`` are tolerations beside those of the pool."""
    placement: Tree = {}
    if pool.labels:
        pointer = f"cluster:/node_pools/{escape(name)}/labels"
        placement["nodeSelector"] = Why(dict(pool.labels), pointer, "the nodes of the pool")
    return {**placement, **pool_tolerations(name, pool, "the pool's taints, so that pods may go there", further)}


def pool_tolerations(name: str, pool: NodePool, reason: str, further: Sequence[Why] = ()) -> Tree:
    """What brings a pod past the taints of a pool; nothing where it has none."""
    if not pool.taints and not pool.pods.tolerations:
        return {"tolerations": [*further]} if further else {}
    tolerations: list[Any] = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        if taint.value
        else {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        for taint in pool.taints
    ]
    source = f"cluster:/node_pools/{escape(name)}"
    stated = enumerate(pool.pods.tolerations)
    asked = [Why(_toleration(one), f"{source}/pods/tolerations/{number}", "as asked") for number, one in stated]
    return {"tolerations": Why([*tolerations, *asked, *further], f"{source}/taints", reason)}


def _toleration(stated: Toleration) -> Tree:
    effect = {"effect": stated.effect} if stated.effect else {}
    if stated.value is None:
        return {"key": stated.key, "operator": "Exists", **effect}
    return {"key": stated.key, "operator": "Equal", "value": stated.value, **effect}


def pod_fields(resolution: Resolution, role: Role) -> Tree:
    """Fields of the spec of a role's pods."""
    run, gang = resolution.run, resolution.plan.gang
    fields: Tree = {}
    if gang:
        reason = "the gang scheduler; without it the group is not read"
        fields["schedulerName"] = Why(gang.scheduler_name, "cluster:/scheduling", reason)
    if run.priority:
        fields["priorityClassName"] = Why(run.priority, "run:/priority", "as asked")
    runtime = nearest(run, role, "runtime_class", lambda words: words.runtime_class)
    if runtime is None and run.runtime_class and resolution.gpus_of(role):
        runtime = Stated(run.runtime_class, "run:/runtime_class")
    if runtime:
        fields["runtimeClassName"] = Why(runtime.value, runtime.source, "as asked")
    if run.scheduling_gates:
        gates = [{"name": name} for name in run.scheduling_gates]
        fields["schedulingGates"] = Why(gates, "run:/scheduling_gates", "as asked; somebody else lifts them")
    affinity = stated_affinity(run, role, {**_affinity(resolution, role), **_anti_affinity(resolution, role)})
    return fields | ({"affinity": affinity} if affinity else {})


def stated_affinity(run: Run, role: Role | None, planned: Tree) -> Tree:
    """What is stated for the pods of a role, and what the plan has for them; None for a pod that has no role."""
    near = nearest(run, role, "pod_affinity", lambda words: words.pod_affinity)
    apart = nearest(run, role, "pod_anti_affinity", lambda words: words.pod_anti_affinity)
    found = {**_node_affinity(run, role), **planned}
    return found | _beside(found, "podAffinity", near) | _beside(found, "podAntiAffinity", apart)


def _beside(found: Tree, field: str, stated: Stated[PodAffinity] | None) -> Tree:
    """The stated terms behind those of the plan."""
    if stated is None:
        return {}
    rules: Tree = {}
    if planned := found.get(field):
        rules = {key: [planned._replace(value=term) for term in terms] for key, terms in planned.value.items()}
    for number, one in enumerate(stated.value.required):
        term = Why(_pod_term(one), f"{stated.source}/required/{number}", "as asked")
        rules.setdefault(REQUIRED, []).append(term)
    for number, one in enumerate(stated.value.preferred):
        rule = {"weight": one.weight, "podAffinityTerm": _pod_term(one)}
        rules.setdefault(PREFERRED, []).append(Why(rule, f"{stated.source}/preferred/{number}", "as asked"))
    return {field: rules}


def _pod_term(stated: PodTerm) -> Tree:
    selector = {
        **({"matchLabels": dict(stated.labels)} if stated.labels else {}),
        **({"matchExpressions": [_expression(one) for one in stated.expressions]} if stated.expressions else {}),
    }
    namespaces = {"namespaces": list(stated.namespaces)} if stated.namespaces else {}
    return {"labelSelector": selector, "topologyKey": stated.topology_key, **namespaces}


def _node_affinity(run: Run, role: Role | None) -> Tree:
    """On top of the labels of the pool, which every node has that a pod may go to."""
    found = nearest(run, role, "node_affinity", lambda words: words.node_affinity)
    if found is None:
        return {}
    stated = found.value
    rules: Tree = {}
    if stated.required:
        labels = enumerate(stated.required)
        terms = [{"matchExpressions": [Why(_expression(one), f"{found.source}/required/{n}", "as asked") for n, one in labels]}]
        rules[REQUIRED] = {"nodeSelectorTerms": terms}
    if stated.preferred:
        rules[PREFERRED] = [
            {"weight": one.weight, "preference": {"matchExpressions": [_expression(label) for label in one.labels]}}
            for one in stated.preferred
        ]
    return {"nodeAffinity": Why(rules, found.source, "as asked")}


def _expression(label: NodeLabel) -> Tree:
    return {"key": label.key, "operator": label.operator, **({"values": list(label.values)} if label.values else {})}


def _selector(resolution: Resolution) -> Tree:
    return {"matchLabels": {IDENTITY_LABEL: resolution.plan.name}}


def _affinity(resolution: Resolution, role: Role) -> Tree:
    """Affinity that puts the pods with ranks near each other, if no queue does that. The first pod may go anywhere: it matches
    its own selector.
    """
    run, cluster = resolution.run, resolution.cluster
    level = cluster.topology.get(run.placement.together or "")
    if level is None or not role.holds_ranks or kueue.finds_places(resolution):
        return {}
    term = {"labelSelector": _ranks(resolution), "topologyKey": level.label}
    if run.placement.required:
        rule: Tree = {REQUIRED: [term]}
    else:
        rule = {PREFERRED: [{"weight": WEIGHT, "podAffinityTerm": term}]}
    return {"podAffinity": Why(rule, "run:/placement", "all pods with ranks in one such place")}


def _anti_affinity(resolution: Resolution, role: Role) -> Tree:
    """Anti-affinity that puts one pod on a node: every pod if they use the node's ports, otherwise those that hold ranks, as
    asked.
    """
    run = resolution.run
    if run.host_network:
        reason = "two pods on one node would want the same ports of it"
        return {"podAntiAffinity": Why(_never_with(_selector(resolution)), "run:/host_network", reason)}
    if not run.placement.one_per_node or not role.holds_ranks:
        return {}
    return {"podAntiAffinity": Why(_never_with(_ranks(resolution)), "run:/placement/one_per_node", "as asked")}


def _never_with(selector: Tree) -> Tree:
    return {REQUIRED: [{"labelSelector": selector, "topologyKey": HOST}]}


def _ranks(resolution: Resolution) -> Tree:
    """The pods that hold ranks: all of the run, or those of their roles."""
    selector, roles = _selector(resolution), resolution.binding.roles
    if all(role.holds_ranks for role in roles):
        return selector
    names = [role.name for role in roles if role.holds_ranks]
    return selector | {"matchExpressions": [{"key": ROLE_LABEL, "operator": "In", "values": names}]}
