"""Rules on which nodes a run asks for, and on gates that hold its pods back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.cluster import NodePool
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import at
from trainwright.manifest import kueue
from trainwright.manifest.gang import SCHEDULERS
from trainwright.objects.selectors import meets
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution

Tree = dict[str, Any]

_OF_CONTROLLERS = (kueue.PREFIX, *(prefix for one in SCHEDULERS.values() for prefix in one.prefixes))
"""Prefixes of gates that schedulers set and lift themselves."""


def pods_fit_their_pool(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """The affinity of finished pods, against the labels that every node of their pool has, and those that their nodeSelector asks
    for; of others a profile knows nothing. What the pool's labels and taints need is in every pod, and no override takes it away.
    """
    roles = {role.name: role for role in resolution.binding.roles}
    for pod in (one for one in pods if one.role in roles):
        name, pool = resolution.pool_of(roles[str(pod.role)])
        other = "choose another node_pool" if roles[str(pod.role)].holds_ranks else f"choose another roles.{pod.role}.node_pool"
        for pointer, message in _excluded(pod.found.spec, name, pool):
            yield found("TW328", pod.where(context.locate, pointer), f"role {pod.role}: {message}", f"remove it, or {other}")


_REQUIRED = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"


def _excluded(spec: Tree, name: str, pool: NodePool) -> Iterator[tuple[str, str]]:
    """Pointer and message of what no node of the pool has. One term of a required affinity is enough for a node."""
    selector = spec.get("nodeSelector") or {}
    wrong = [list(_excluding(term, place, {**selector, **pool.labels})) for place, term in enumerate(at(spec, _REQUIRED) or [])]
    for pointer, label in (one for term in wrong for one in term) if all(wrong) else ():
        key, said = label["key"], " ".join([label["operator"], ", ".join(label.get("values") or [])]).rstrip()
        has = f"every node of pool {name} has" if key in pool.labels else "the nodeSelector asks for"
        yield pointer, f"{has} {key}: {pool.labels.get(key, selector.get(key))}, and this entry excludes it ({said})"


def _excluding(term: Tree, place: int, labels: Mapping[str, str]) -> Iterator[tuple[str, Tree]]:
    """Expressions of one term that do not hold of labels which are known, with their pointers."""
    for number, label in enumerate(term.get("matchExpressions") or []):
        if label.get("key") in labels and not meets(label, labels):
            yield f"{_REQUIRED}/{place}/matchExpressions/{number}", label


def gates_are_lifted(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The scheduler looks at no pod that has a gate, and nothing that the compiler knows lifts one."""
    for number, gate in enumerate(context.run.scheduling_gates):
        where = context.locate.run(f"/scheduling_gates/{number}")
        if gate.startswith(_OF_CONTROLLERS):
            message = f"scheduling gate {gate} belongs to a queue or scheduler, which sets and lifts it itself"
            yield found("TW451", where, message, "remove it, and use queue or gang")
        else:
            message = f"no pod is scheduled until somebody lifts gate {gate}, even if that takes longer than peer_wait"
            yield found("TW461", where, message, "waive this where a controller of yours lifts it; or remove it")


PLAN = (gates_are_lifted,)
PODS = (pods_fit_their_pool,)
