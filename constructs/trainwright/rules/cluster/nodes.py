"""Rules on which nodes a run asks for, and on gates that hold its pods back."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.manifest import kueue
from trainwright.manifest.gang import SCHEDULERS
from trainwright.plan import Resolution
from trainwright.run import NodeLabel

_OF_CONTROLLERS = (kueue.PREFIX, *(prefix for one in SCHEDULERS.values() for prefix in one.prefixes))
"""Prefixes of gates that schedulers set and lift themselves."""


def pool_has_such_nodes(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Every node of a pool has the pool's labels; of other labels a profile knows nothing."""
    stated, pool = context.run.node_affinity, resolution.plan.world.pool
    for number, label in enumerate(stated.required if stated else ()):
        value = resolution.pool.labels.get(label.key)
        if value is not None and not _holds(label, value):
            message = f"every node of pool {pool} has {label.key}: {value}, and this entry excludes it{_asked(label)}"
            where = context.locate.run(f"/node_affinity/required/{number}")
            yield found("TW328", where, message, "remove it, or choose another node_pool")


def _asked(label: NodeLabel) -> str:
    return f" ({label.operator} {', '.join(label.values)})" if label.values else f" ({label.operator})"


def _holds(label: NodeLabel, value: str) -> bool:
    """Whether it is true of a label with this value."""
    match label.operator:
        case "In":
            return value in label.values
        case "NotIn":
            return value not in label.values
        case "Exists" | "DoesNotExist":
            return label.operator == "Exists"
    if not value.isdecimal():
        return False
    return int(value) > int(label.values[0]) if label.operator == "Gt" else int(value) < int(label.values[0])


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


PLAN = (pool_has_such_nodes, gates_are_lifted)
