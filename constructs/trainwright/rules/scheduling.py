"""Rules on queues, gangs and places."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.codes import found
from trainwright.findings import Finding
from trainwright.handshake import Gang
from trainwright.locate import escape
from trainwright.manifest.scheduling import GROUP_LABEL, QUEUE_LABEL, RAY_GANG_LABEL, RAY_PRIORITY_LABEL
from trainwright.plan import Resolution
from trainwright.plan.gang import in_volcano_queue
from trainwright.rules.context import Context

FLAGS = {"volcano": "volcano", "coscheduling": "scheduler-plugins"}
"""Gang scheduler as a profile calls it -> the value of an operator's flag."""


def queue(context: Context) -> Iterator[Finding]:
    """A queue that somebody reads, and that is there."""
    run, cluster = context.run, context.cluster
    if run.queue is None:
        return
    where = context.locate.run("/queue")
    namespace = cluster.namespaces.get(run.namespace)
    if cluster.kueue is None and cluster.scheduling.gang != "volcano":
        message = f"cluster {cluster.cluster} has neither Kueue nor Volcano: nothing reads the queue"
        yield found("TW432", where, message, "remove queue, or add `kueue: {version: …}` to the profile if it is installed")
    elif in_volcano_queue(run, cluster) and not run.gang:
        message = "a queue of Volcano is read from the group of the pods, and with `gang: false` there is none"
        yield found("TW432", where, message, "remove `gang: false`, or remove queue")
    elif cluster.kueue and namespace and run.queue not in namespace.queues:
        known = ", ".join(namespace.queues) or "none"
        fix = f"use one of: {known}; or add it to the profile (managed: false if it is there already)"
        yield found("TW431", where, f"namespace {run.namespace} has no queue {run.queue}", fix)
    elif cluster.kueue is None and cluster.scheduling.queues is not None and run.queue not in cluster.scheduling.queues:
        known = ", ".join(cluster.scheduling.queues) or "none"
        fix = f"use one of: {known}; or add it to scheduling.queues of the profile if it is there"
        yield found("TW431", where, f"Volcano of cluster {cluster.cluster} has no queue {run.queue}", fix)


def priority(context: Context) -> Iterator[Finding]:
    """A PriorityClass that is there, as far as the profile says."""
    name, known = context.run.priority, context.cluster.priorities
    if name is None or known is None or name in known or name.startswith("system-"):
        return
    fix = f"use one of: {', '.join(known) or 'none'}; or add it to priorities of the profile if it is there"
    yield found("TW452", context.locate.run("/priority"), f"cluster {context.cluster.cluster} has no PriorityClass {name}", fix)


def by_hand(context: Context) -> Iterator[Finding]:
    """Labels of schedulers: the plan sets those that are read, where they are read."""
    for field in ("labels", "pod_labels"):
        for key in getattr(context.run, field):
            where = context.locate.run(f"/{field}/{escape(key)}")
            if key in _READ or (field == "pod_labels" and key.startswith("kueue.x-k8s.io/")):
                message = f"label {key} is the plan's to set, and not on every object"
                yield found("TW451", where, message, f"remove it, and use {_READ.get(key, 'queue')}")
            elif key in _UNREAD:
                message = f"no scheduler reads label {key}: pods are placed one by one"
                yield found("TW451", where, message, "remove it: the plan tells the profile's gang scheduler what it reads")


_READ = {
    QUEUE_LABEL: "queue", "volcano.sh/queue-name": "queue", GROUP_LABEL: "gang", RAY_GANG_LABEL: "gang",
    RAY_PRIORITY_LABEL: "priority",
}  # fmt: skip
"""Label -> field of the run that stands for it. With a queue on the pods too, the run would be admitted twice (kueue#2612)."""
_UNREAD = frozenset({
    "scheduling.k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name",
    "pod-group.scheduling.sigs.k8s.io/min-available", "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name",
    "scheduling.volcano.sh/queue-name",
})  # fmt: skip
"""Names that coscheduling once had (kubernetes-sigs/scheduler-plugins#323), and annotations of Volcano, which are no labels."""


def place(context: Context) -> Iterator[Finding]:
    """A level of the topology that the profile knows."""
    placement, levels = context.run.placement, context.cluster.topology
    if placement.together is not None and placement.together not in levels:
        known = ", ".join(levels) or "none"
        message = f"cluster {context.cluster.cluster} has no topology level {placement.together}"
        fix = f"use one of: {known}; or add `topology: {{{placement.together}: {{label: NODE-LABEL}}}}` to the profile"
        yield found("TW434", context.locate.run("/placement/together"), message, fix)


def gang(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A group that is made by an operator needs the operator's own flag."""
    planned, target = resolution.plan.gang, resolution.target
    if planned is None or planned.made_by not in (Gang.OPERATOR, Gang.LABEL) or target.operator is None:
        return
    installed = context.cluster.operators.get(target.operator)
    wanted = FLAGS[planned.scheduler]
    if installed and installed.gang_scheduler != wanted:
        there = f"is set to {installed.gang_scheduler}" if installed.gang_scheduler else "is not set"
        message = f"pods go to {planned.scheduler_name}, and the flag of {target.operator} that makes their PodGroup {there}"
        place = f"operators.{target.operator}.gang_scheduler"
        fix = f"set the flag to {wanted} and write so under {place}, or add `gang: false` to the run"
        yield found("TW430", context.locate.cluster(f"/operators/{target.operator}"), message, fix)


def watched(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Kueue admits the kinds that its configuration lists, and leaves others alone."""
    kueue, target = context.cluster.kueue, resolution.target
    if context.run.queue is None or kueue is None or kueue.integrations is None or target.kueue in kueue.integrations:
        return
    message = f"Kueue of cluster {context.cluster.cluster} does not watch {target.kueue}, and the run is a {target.title}"
    fix = (
        f"list {target.kueue} in Kueue's configuration and under kueue.integrations of the profile, choose another target, or "
        "remove queue"
    )
    yield found("TW436", context.locate.run("/queue"), message, fix)


def two_gates(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Kueue admits a run as a whole; a gang scheduler behind it is a second gate."""
    if resolution.plan.gang and context.run.queue and context.cluster.kueue:
        message = f"the run waits for Kueue and then for {resolution.plan.gang.scheduler}: each may hold what the other waits for"
        yield found("TW435", context.locate.run("/queue"), message, "add `gang: false`, since Kueue admits all pods or none")


RUN = (queue, place, priority, by_hand)
PLAN = (gang, watched, two_gates)
