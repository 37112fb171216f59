"""Rules on how a script or a command lives: what a target can carry, and what a cluster makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Port
from trainwright.operators import TARGETS
from trainwright.plan import Resolution


def target_carries(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What a run states of its life and its target has no way for."""
    run, title = context.run, resolution.plan.target_title
    target, pods = TARGETS[resolution.plan.target], sum(role.pods for role in resolution.binding.roles)
    for field, reason in target.cannot_carry.items():
        if getattr(run, field):
            message = f"{title} cannot carry {field}: {reason}"
            yield found("TW458", context.locate.run(f"/{field}"), message, f"remove {field}, or choose another target")
    if target.hides_unready and pods > 1:
        waiting = [f"probes.{name}" for name in ("started", "ready") if run.probes and getattr(run.probes, name)]
        for field in (*waiting, *(f"roles.{name}.ready" for name, parts in run.roles.items() if parts.ready)):
            hidden = f"the Services of a {title} hide a pod that is not ready, and its peers wait for its name"
            fix = f"remove {field}; probes.alive may stay. JobSet and Indexed Job have no such Services"
            where = context.locate.run(f"/{field.replace('.', '/')}")
            yield found("TW458", where, f"{field} would never pass: {hidden}", fix)


def comes_back(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A run with a time to live is not there when Argo CD looks."""
    ttl = context.run.ttl
    if ttl and "ttl" not in TARGETS[resolution.plan.target].cannot_carry:
        message = f"{ttl} after its end, the run's object is deleted; Argo CD recreates it, and the run starts again"
        fix = "remove ttl, and write state: done when the run has ended; or waive this where nothing applies dist/ again"
        yield found("TW459", context.locate.run("/ttl"), message, fix)


def ports_are_free(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Names and numbers of a run's own ports are not those of the plan, and no two in a pod are the same."""
    everywhere = dict.fromkeys(port for process in resolution.processes.values() for port in process.ports)
    apart = {port for role in resolution.binding.roles if role.further for port in resolution.processes[role.name].ports}
    for port in everywhere:
        where = context.locate.run(port.source.removeprefix("run:"))
        for other in everywhere if port.source.startswith("run:") else ():
            takes = _takes_from_afar if port in apart else _takes
            if not other.source.startswith("run:") and takes(context, port, other):
                message = f"port {port.name} ({port.number}) is taken by port {other.name} ({other.number}) of the plan"
                yield found("TW460", where, f"{message}: {other.reason}", fix_of_port(port, other))
    for process in resolution.processes.values():
        own = [port for port in process.ports if port.source.startswith("run:")]
        for first, second in combinations(own, 2):
            if first.name == second.name or first.number == second.number:
                same = f"are both {first.number}" if first.number == second.number else "have the same name in one pod"
                message = f"ports {first.name} and {second.name} {same}"
                yield found("TW460", context.locate.run(second.source.removeprefix("run:")), message, "remove one of them")


def fix_of_port(own: Port, planned: Port) -> str:
    """A port of the same number is most often the plan's own, stated once more."""
    if own.number == planned.number:
        return "remove it: the pods have this port from the plan; a program of your own needs another number"
    return "choose another name"


def _takes(_: Context, own: Port, planned: Port) -> bool:
    return own.name == planned.name or own.number == planned.number


def _takes_from_afar(context: Context, own: Port, planned: Port) -> bool:
    """Whether a port of a further role, in whose pods nothing of the plan listens, meets one of the plan: on the node's network
    by its number, and by the name of the port that Prometheus asks for metrics in every pod.
    """
    scraped = own.name == planned.name == "http" and context.cluster.monitoring is not None
    return scraped or (context.run.host_network and own.number == planned.number)


PLAN = (target_carries, comes_back, ports_are_free)
