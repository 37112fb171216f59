"""Rules on what is installed in the cluster beside Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.cluster.operators import Version, release
from trainwright.codes import found
from trainwright.findings import Finding, Where
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
    """The operator of the target, in a release that this compiler knows."""
    target, operators = resolution.target, context.cluster.operators
    if target.operator is None or target.releases is None:
        return
    installed = operators.get(target.operator)
    if installed is None:
        field = "/target" if context.run.target else "/cluster"
        fix = f"add `operators: {{{target.operator}: {{version: …}}}}` to the profile if it is there, or choose another target"
        message = f"{target.title} needs the operator {target.operator}, and cluster {context.cluster.cluster} names none"
        yield found("TW313", context.locate.run(field), message, fix)
        return
    where = context.locate.cluster(f"/operators/{target.operator}/version")
    yield from _known(target.operator, installed.version, target.releases, where)


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
    if resolution.plan.gang and cluster.scheduling.version and cluster.scheduling.gang:
        name = cluster.scheduling.gang
        yield from _known(name, cluster.scheduling.version, GANG[name], context.locate.cluster("/scheduling/version"))


def _known(name: str, version: Version, known: Releases, where: Where) -> Iterator[Finding]:
    first, last = (".".join(map(str, number)) for number in (known.first, known.last))
    if release(version) < known.first:
        message = f"{name} {version} is older than {first}, the first release whose behaviour this compiler knows"
        yield found("TW314", where, message, f"upgrade {name}; known: {first} to {last}")
    elif release(version) > known.last:
        message = f"{name} {version} is newer than {last}, the last release whose behaviour this compiler knows"
        fix = f"compare the plan with its release notes and waive this, or use {first} to {last}"
        yield found("TW315", where, message, fix)


PLAN = (operator, added_containers, schedulers)
