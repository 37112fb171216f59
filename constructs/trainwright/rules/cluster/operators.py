"""Rules on what is installed in the cluster besides Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.cluster.addons import Releases, Version, release
from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.manifest.gang import SCHEDULERS
from trainwright.operators import TARGETS
from trainwright.operators.kueue.releases import RELEASES
from trainwright.plan import Resolution


def operator(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator of the target and those that it depends on, in releases that this compiler knows."""
    target, cluster = TARGETS[resolution.plan.target], context.cluster
    if target.operator is None:
        return
    for known in (target.operator, *target.depends_on):
        name, installed = known.name, cluster.operators.get(known.name)
        if installed is None:
            field = "/target" if context.run.target else "/cluster"
            needs = target.title if known is target.operator else f"{target.title} by the operator {target.operator.name}"
            message = f"{needs} needs the operator {name}, which the profile of cluster {cluster.cluster} does not list"
            fix = f"add `operators: {{{name}: {{version: …}}}}` to the profile if the cluster has it, or choose another target"
            yield found("TW313", context.locate.run(field), message, fix)
        else:
            yield from _known(name, installed.version, known.releases, context.locate.cluster(f"/operators/{name}/version"))


def schedulers(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Kueue and the gang scheduler, where the run meets them."""
    cluster, run = context.cluster, context.run
    if run.queue and cluster.kueue:
        yield from _known("Kueue", cluster.kueue.version, RELEASES, context.locate.cluster("/kueue/version"))
    name, version = cluster.scheduling.gang, cluster.scheduling.version
    if resolution.plan.gang and name and version:
        yield from _known(name, version, SCHEDULERS[name].releases, context.locate.cluster("/scheduling/version"))
    elif resolution.plan.gang and name:
        fix = f"write its release under scheduling.version of the profile; known: {_span(SCHEDULERS[name].releases)}"
        message = f"the profile does not say which release of {name} it has"
        yield found("TW316", context.locate.cluster("/scheduling"), message, fix)


def _known(name: str, version: Version, known: Releases, where: Where) -> Iterator[Finding]:
    first, last = _numbers(known)
    if release(version) < known.first:
        message = f"{name} {version} is older than {first}, the first release whose behaviour this compiler knows"
        yield found("TW314", where, message, f"upgrade {name}; known: {_span(known)}")
    elif release(version) > known.last:
        message = f"{name} {version} is newer than {last}, the last release whose behaviour this compiler knows"
        fix = f"compare the plan with its release notes and waive this, or use {_span(known)}"
        yield found("TW315", where, message, fix)


def _numbers(known: Releases) -> tuple[str, str]:
    first, last = (".".join(map(str, number)) for number in (known.first, known.last))
    return first, last


def _span(known: Releases) -> str:
    return " to ".join(_numbers(known))


PLAN = (operator, schedulers)
