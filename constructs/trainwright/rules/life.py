"""Rules on how a script or a command lives: what a target can carry, and what a cluster makes of it."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.plan import Resolution
from trainwright.target import TARGETS


def target_carries(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What a run states of its life and its target has no way for."""
    run, title = context.run, resolution.plan.target_title
    target, pods = TARGETS[resolution.plan.target], sum(role.pods for role in resolution.binding.roles)
    for field, reason in target.refused.items():
        if getattr(run, field):
            message = f"{title} cannot carry {field}: {reason}"
            yield found("TW458", context.locate.run(f"/{field}"), message, f"remove {field}, or choose another target")
    if run.probes and target.hides_unready and pods > 1:
        for name in ("started", "ready"):
            if getattr(run.probes, name):
                hidden = f"the Services of a {title} hide a pod that is not ready, and its peers wait for its name"
                message = f"probes.{name} would never pass: {hidden}"
                fix = f"remove probes.{name}; probes.alive may stay. JobSet and Indexed Job have no such Services"
                yield found("TW458", context.locate.run(f"/probes/{name}"), message, fix)


def comes_back(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A run with a time to live is not there when Argo CD looks."""
    ttl = context.run.ttl
    if ttl and "ttl" not in TARGETS[resolution.plan.target].refused:
        message = f"{ttl} after its end, the run's object is deleted; Argo CD makes it again, and the run starts again"
        fix = "remove ttl, and write state: done when the run has ended; or waive this where nothing applies dist/ again"
        yield found("TW459", context.locate.run("/ttl"), message, fix)


def ports_are_free(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Names and numbers of a run's own ports are not those of the plan."""
    planned = {port for process in resolution.processes.values() for port in process.ports if not port.source.startswith("run:")}
    stated: dict[int, str] = {}
    for name, number in context.run.ports.items():
        where = context.locate.run(f"/ports/{escape(name)}")
        for port in planned:
            if port.name == name or port.number == number:
                message = f"port {name} ({number}) is taken by port {port.name} ({port.number}) of the plan: {port.reason}"
                yield found("TW460", where, message, "choose another name and number")
        if number in stated:
            yield found("TW460", where, f"ports {stated[number]} and {name} are both {number}", "remove one of them")
        stated.setdefault(number, name)


PLAN = (target_carries, comes_back, ports_are_free)
