"""Rules on what is installed in the cluster beside Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.cluster.addons import Version, release
from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.rules.context import Context
from trainwright.target.base import Releases

KUEUE = Releases((0, 15), (0, 19))
"""From 0.15 on the API is v1beta2."""
GANG = {"volcano": Releases((1, 8), (1, 15)), "coscheduling": Releases((0, 27), (0, 33))}
"""Gang schedulers by what a profile calls them; scheduler-plugins is released by the minor version of Kubernetes."""

KUEUE_WITH_TRAINER = ((0, 17), (2, 2))
"""From this Kueue on only Trainers from this release on are admitted (kubernetes-sigs/kueue#11931)."""


def operator(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator of the target and those that it relies on, in releases that this compiler knows."""
    target, cluster = resolution.target, context.cluster
    if target.operator is None or target.releases is None:
        return
    for name, known in {target.operator: target.releases, **target.relies_on}.items():
        installed = cluster.operators.get(name)
        if installed is None:
            field = "/target" if context.run.target else "/cluster"
            needs = target.title if name == target.operator else f"{target.title} by the operator {target.operator}"
            message = f"{needs} needs the operator {name}, and cluster {cluster.cluster} names none"
            fix = f"add `operators: {{{name}: {{version: …}}}}` to the profile if it is there, or choose another target"
            yield found("TW313", context.locate.run(field), message, fix)
        else:
            yield from _known(name, installed.version, known, context.locate.cluster(f"/operators/{name}/version"))


def added_containers(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Before each worker the Training Operator runs a container that looks up the master, and gives it no security context
    (pkg/controller.v1/pytorch/initcontainer.go); pods of an elastic run, which has no master, get none."""
    run, target = context.run, resolution.target
    namespace, installed = context.cluster.namespaces.get(run.namespace), context.cluster.operators.get("training-operator")
    workers = resolution.needs.rendezvous is Rendezvous.STATIC and resolution.needs.nodes > 1
    if target.operator != "training-operator" or not workers or namespace is None or installed is None:
        return
    if namespace.pod_security == "restricted" and not installed.restricted_containers:
        message = f"pod security restricted of namespace {run.namespace} refuses the operator's container init-pytorch"
        fix = (
            "name a restricted one by the operator's --pytorch-init-container-template-file and write "
            "operators.training-operator.restricted_containers: true; or choose another target, or a namespace of level baseline"
        )
        yield found("TW454", context.locate.cluster("/operators/training-operator"), message, fix)


def schedulers(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Kueue and the gang scheduler, where the run meets them."""
    cluster, run = context.cluster, context.run
    if run.queue and cluster.kueue:
        yield from _known("Kueue", cluster.kueue.version, KUEUE, context.locate.cluster("/kueue/version"))
        trainer = cluster.operators.get("trainer") if resolution.target.operator == "trainer" else None
        kueue_first, trainer_first = KUEUE_WITH_TRAINER
        if trainer and release(cluster.kueue.version) >= kueue_first and release(trainer.version) < trainer_first:
            message = f"Kueue {cluster.kueue.version} does not admit TrainJobs of Trainer {trainer.version}"
            yield found("TW433", context.locate.cluster("/operators/trainer/version"), message, "upgrade Trainer to 2.2 or newer")
    name, version = cluster.scheduling.gang, cluster.scheduling.version
    if resolution.plan.gang and name and version:
        yield from _known(name, version, GANG[name], context.locate.cluster("/scheduling/version"))
    elif resolution.plan.gang and name:
        fix = f"write its release under scheduling.version of the profile; known: {_span(GANG[name])}"
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


PLAN = (operator, added_containers, schedulers)
