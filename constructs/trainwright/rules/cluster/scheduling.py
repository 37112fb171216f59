"""Rules on queues, priorities, gangs and placement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from trainwright.cluster.addons import Kueue, Operator, release
from trainwright.findings import Finding
from trainwright.findings.codes import ADD_IT, found, milder, one_of
from trainwright.findings.context import Context
from trainwright.findings.locate import at, escape
from trainwright.handshake import Binding, Gang, OperatorName, Refusal, Role
from trainwright.manifest.gang import SCHEDULERS
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.kueue import DEFAULT_QUEUE, PREFIX, SLICE, SLICE_SIZE, dispatching_queue
from trainwright.operators import TARGETS
from trainwright.operators.base import GangFlag, RunPod, Target
from trainwright.operators.kueue.releases import CLAIMS
from trainwright.operators.quota import Offer, asked, beyond, offers
from trainwright.overrides.owned import ANNOTATIONS_OF_SCHEDULERS, labels_of_schedulers
from trainwright.plan import Resolution, answer
from trainwright.plan.incident import delay, delayed, evicting, impatient, incident, loss_beyond, plan_recovery, takes_others
from trainwright.plan.pods import in_volcano_queue
from trainwright.plan.stated import all_words
from trainwright.units import counted


def queue(context: Context) -> Iterator[Finding]:
    """The queue must exist, and something must read it."""
    run, cluster = context.run, context.cluster
    if run.queue is None:
        return
    where = context.locate.run("/queue")
    namespace = cluster.namespaces.get(run.namespace)
    if cluster.kueue is None and not cluster.scheduling.has_queues:
        message = f"cluster {cluster.cluster} has neither Kueue nor Volcano: nothing reads the queue"
        yield found("TW432", where, message, "remove queue, or add `kueue: {version: …}` to the profile if the cluster has it")
    elif in_volcano_queue(run, cluster) and not run.gang:
        message = "Volcano reads the queue from the group of the pods, and with `gang: false` there is none"
        yield found("TW432", where, message, "remove `gang: false`, or remove queue")
    elif cluster.kueue and namespace and run.queue not in namespace.queues:
        fix = one_of(namespace.queues, ADD_IT)
        yield found("TW431", where, f"namespace {run.namespace} has no queue {run.queue}", fix)
    elif cluster.kueue is None and cluster.scheduling.queues is not None and run.queue not in cluster.scheduling.queues:
        fix = one_of(cluster.scheduling.queues, "add it to scheduling.queues of the profile if the cluster has it")
        yield found("TW431", where, f"Volcano of cluster {cluster.cluster} has no queue {run.queue}", fix)


def priority(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """The PriorityClass must exist, if the profile lists them."""
    known = context.cluster.priorities
    for pod in pods:
        name = pod.found.spec.get("priorityClassName")
        if known is not None and name and name not in known and not name.startswith("system-"):
            fix = one_of(known, "add it to priorities of the profile if the cluster has it")
            where = pod.where(context.locate, "/priorityClassName")
            yield found("TW452", where, f"cluster {context.cluster.cluster} has no PriorityClass {name}", fix)


def by_hand(context: Context) -> Iterator[Finding]:
    """Labels of schedulers: the plan sets those that are read, where they are read. With a queue on the pods too, a run would be
    admitted twice (kueue#2612).
    """
    stated = [
        (field, key, context.locate.at(f"{source}/{field}/{escape(key)}"))
        for words, source in all_words(context.run)
        for field in ("labels", "pod_labels", "annotations", "pod_annotations")
        for key in getattr(words, field, ())
    ]
    for field, key, where in stated:
        if field in ("labels", "pod_labels"):
            read = labels_of_schedulers()  # which loads all targets
            if key in read or (field == "pod_labels" and key.startswith(PREFIX)):
                message = f"label {key} is set by the plan, on the object where it is read"
                yield found("TW451", where, message, f"remove it, and use {read.get(key, 'queue')}")
            elif key in _UNREAD:
                message = f"no scheduler reads label {key}: pods are placed one by one"
                yield found("TW451", where, message, "remove it: the plan tells the profile's gang scheduler what it reads")
        elif key in ANNOTATIONS_OF_SCHEDULERS or key.startswith(PREFIX):
            message = f"annotation {key} is set by the plan, on the object where it is read"
            instead = ANNOTATIONS_OF_SCHEDULERS.get(key, "queue and placement")
            yield found("TW451", where, message, f"remove it, and use {instead}")


_UNREAD = frozenset({*ANNOTATIONS_OF_SCHEDULERS, *(label for one in SCHEDULERS.values() for label in one.former_labels)})
"""Labels that people write, and that are annotations, or were read once."""


def topology_level(context: Context) -> Iterator[Finding]:
    """The profile must know the level of the topology."""
    placement, levels = context.run.placement, context.cluster.topology
    if placement.together is not None and placement.together not in levels:
        message = f"cluster {context.cluster.cluster} has no topology level {placement.together}"
        fix = one_of(levels, f"add `topology: {{{placement.together}: {{label: NODE-LABEL}}}}` to the profile")
        yield found("TW434", context.locate.run("/placement/together"), message, fix)


def gang(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A group that is made by an operator needs the operator's own flag."""
    planned, made_by = resolution.plan.gang, _maker(context, resolution)
    if planned is None or made_by is None:
        return
    operator, flag, installed = made_by
    if flag.groups_for(installed.gang_scheduler) != planned.scheduler:
        there = f"is set to {installed.gang_scheduler}" if installed.gang_scheduler else "is not set"
        message = f"pods go to {planned.scheduler_name}, but the flag of {operator} that creates their PodGroup {there}"
        fix = _set_flag(operator, flag.value_for(planned.scheduler, planned.scheduler_name))
        # an operator with the flag sends pods without a gang to that scheduler too
        other = "choose another target" if installed.gang_scheduler else "add `gang: false` to the run"
        yield found("TW430", context.locate.cluster(f"/operators/{operator}"), message, f"{fix}, or {other}")


def sent_elsewhere(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """An operator with a flag for gangs sends its pods to a scheduler, those of a run without a gang too."""
    scheduling, made_by = context.cluster.scheduling, _maker(context, resolution)
    if scheduling.gang is None or scheduling.name is None or made_by is None:
        return
    operator, flag, installed = made_by
    planned, value = resolution.plan.gang, installed.gang_scheduler
    if value is None or (planned and flag.groups_for(value) != planned.scheduler):
        return  # nothing is sent, or the flag itself is wrong
    goes = flag.scheduler(value, planned.scheduler_name if planned else None)
    if goes != scheduling.name:
        message = f"the flag of {operator} sends the pods to scheduler {goes}, but the gang scheduler is {scheduling.name}"
        if flag.fixes_name(scheduling.gang):
            fix = f"run the scheduler as {goes} and write `scheduler_name: {goes}` under scheduling"
        else:
            fix = _set_flag(operator, flag.value_for(scheduling.gang, scheduling.name))
        where = context.locate.cluster(f"/operators/{operator}/gang_scheduler")
        yield found("TW437", where, message, f"{fix}, or choose another target")


def grouped_anyway(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """An operator whose flag is set makes a PodGroup for each of its jobs; no manifest can say that it should not."""
    made_by, binding, run = _maker(context, resolution), resolution.binding, context.run
    several = sum(role.pods for role in binding.roles) > 1
    if made_by is None or resolution.plan.gang or binding.gang is not Gang.OPERATOR or not several:
        return
    operator, _, installed = made_by
    if installed.gang_scheduler is None:
        return
    message = f"the flag of {operator} makes a PodGroup for this run too, for scheduler {installed.gang_scheduler}"
    if context.cluster.scheduling.gang is None:
        where, fix = context.locate.cluster("/scheduling"), "state that scheduler in scheduling.gang of the profile"
    elif not run.gang:
        where, fix = context.locate.run("/gang"), "remove `gang: false`"
    else:
        where, fix = context.locate.run("/queue"), "write scheduling.with_kueue: true in the profile, so that the plan says it"
    yield found("TW438", where, message, f"{fix}, unset the flag, or choose another target")


def _maker(context: Context, resolution: Resolution) -> tuple[OperatorName, GangFlag, Operator] | None:
    """The operator that makes groups of pods by a flag, where the target has such a one: its name, its flag, and as installed."""
    known = TARGETS[resolution.plan.target].operator
    installed = context.cluster.operators.get(known.name) if known else None
    if known is None or known.gang_flag is None or installed is None:
        return None
    return known.name, known.gang_flag, installed


def _set_flag(operator: OperatorName, value: str) -> str:
    return f"set the flag to {value} and write the same under operators.{operator}.gang_scheduler"


def watched(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Kueue admits the kinds that its configuration lists, and leaves others alone."""
    kueue, target, where = context.cluster.kueue, TARGETS[resolution.plan.target], context.locate.run("/queue")
    if context.run.queue is None or kueue is None:
        return
    if target.kueue is None:
        message = f"Kueue has no integration for a {target.title}: nothing would hold the run back until it is admitted"
        yield found("TW436", where, message, "choose another target, or remove queue")
        return
    if _watches(kueue, target):
        return
    message = f"Kueue of cluster {context.cluster.cluster} does not watch {target.kueue}, the kind of this run ({target.title})"
    fix = (
        f"list {target.kueue} in Kueue's configuration and under kueue.integrations of the profile, choose another target, or "
        "remove queue"
    )
    yield found("TW436", where, message, fix)


def put_into_default(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Kueue puts an object without a queue into the one called ``default``, if its namespace has that and Kueue watches its kind.
    It does so in every release that is known (keps/2936-local-queue-defaulting).
    """
    run, cluster, target = context.run, context.cluster, TARGETS[resolution.plan.target]
    namespace = cluster.namespaces.get(run.namespace)
    if run.queue is not None or cluster.kueue is None or not _watches(cluster.kueue, target):
        return
    if namespace and DEFAULT_QUEUE in namespace.queues:
        message = f"Kueue puts the run into queue {DEFAULT_QUEUE}, since it names none, and its plan knows nothing of Kueue"
        fix = f"write `queue: {DEFAULT_QUEUE}`, or another queue of the namespace"
        yield found("TW439", context.locate.run("/queue"), message, fix)


def _watches(kueue: Kueue, target: Target) -> bool:
    return target.kueue is not None and (kueue.integrations is None or target.kueue in kueue.integrations)


def left_to_kueue(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """An operator that does not know ``managedBy`` would start the run here, beside its copy in another cluster."""
    known = TARGETS[resolution.plan.target].operator
    installed = context.cluster.operators.get(known.name) if known else None
    if dispatching_queue(resolution) is None or known is None or known.managed_by is None or installed is None:
        return
    if not known.managed_by.of(installed.version):
        title, first = resolution.plan.target_title, ".".join(map(str, known.managed_by.since))
        message = (
            f"queue {context.run.queue} sends its runs to other clusters, and {known.name} {installed.version} would start the "
            f"{title} here too: only from {first} on does it read managedBy"
        )
        where = context.locate.cluster(f"/operators/{known.name}/version")
        yield found("TW433", where, message, f"upgrade {known.name} to {first} or newer, or use another queue or target")


def stays_behind(context: Context, resolution: Resolution, manifests: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Kueue copies the object that carries the run to another cluster, and none of those that it needs there
    (kubernetes-sigs/kueue, keps/693-multikueue)."""
    target = TARGETS[resolution.plan.target]
    kinds = dict.fromkeys(str(one["kind"]) for one in manifests if GroupKind.of(one) != target.kind)
    if dispatching_queue(resolution) is None or not kinds:
        return
    message = f"queue {context.run.queue} sends the {target.title} to another cluster, without its {' and '.join(kinds)}"
    fix = "let Argo CD sync these to every such cluster too, and waive this"
    yield found("TW464", context.locate.run("/queue"), message, fix)


def quota(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What a queue can never give, as far as the profile states its quota."""
    roles, given = resolution.binding.roles, offers(resolution)
    for resource in dict.fromkeys(one.resource for one in given):
        wanted = {role: number for role in roles if (number := asked(resolution, role).get(resource))}
        offered = [one for one in given if one.resource == resource]
        said = [one for role, number in wanted.items() if (one := _too_much(resolution, role, number, offered))]
        alone, total = [one.most for one in offered if one.most is not None], sum(wanted.values())
        if not said and len(alone) == len(offered) and total > sum(alone):
            said = [(f"the run asks for {total:f} {resource}, and its queue gives {sum(alone):f} at most", True)]
        for message, sure in said[:1]:
            fix = "lower what the run asks for, name another queue, or correct the profile if the queue has more"
            yield (found if sure else milder)("TW467", context.locate.run("/queue"), f"{message}: {context.run.queue}", fix)


def _too_much(resolution: Resolution, role: Role, number: Decimal, offered: Sequence[Offer]) -> tuple[str, bool] | None:
    """What is wrong with what the pods of one role ask for, and whether that is sure; None where some flavor may have it."""
    pool, resource = resolution.pool_of(role)[0], offered[0].resource
    fitting = [one for one in offered if not one.pools or pool in one.pools]
    asks = f"role {role.name} asks for {number:f} {resource}"
    if not fitting:
        return f"{asks} in pool {pool}, and no flavor of its queue has nodes of that pool", True
    if (above := beyond(number, fitting)) is None:
        return None
    limit, sure = above
    gives = f"gives {limit:f} at most" if sure else f"has {limit:f} with all that the profile's queues of its cohort lend"
    return f"{asks}, and its queue {gives}", sure


def two_gates(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Kueue admits a run as a whole; a gang scheduler behind it is a second gate."""
    if resolution.plan.gang and context.run.queue and context.cluster.kueue:
        message = f"the run waits for Kueue and then for {resolution.plan.gang.scheduler}: each may hold what the other waits for"
        yield found("TW435", context.locate.run("/queue"), message, "add `gang: false`, since Kueue admits all pods or none")


def slices(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """Slices of Kueue's topology-aware scheduling, which only an override writes: both annotations, and pods enough for a slice
    (kubernetes-sigs/kueue, pkg/controller/jobframework/tas_validation.go)."""
    where, counts = context.locate.run("/overrides"), {role.name: role.pods for role in resolution.binding.roles}
    for pod in pods:
        role = pod.role
        if role is None:
            continue
        there = at(pod.found.template, "/metadata/annotations") or {}
        level, size = there.get(SLICE), there.get(SLICE_SIZE)
        if (level is None) != (size is None):
            alone, other = (SLICE, SLICE_SIZE) if size is None else (SLICE_SIZE, SLICE)
            message = f"the pods of role {role} have the annotation {alone} without {other}"
            yield found("TW603", where, message, "write both: a level of the topology, and the pods of one slice")
        elif size is not None and not (re.fullmatch("[0-9]{1,9}", size) and 1 <= int(size) <= counts[role]):
            message = f"Kueue cannot divide the {counts[role]} pods of role {role} into slices of {size}"
            yield found("TW603", where, message, f"write a number from 1 to {counts[role]} in {SLICE_SIZE}")


def evictions(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The Job controller waits 10 s before a new pod, and twice as long after each further failure of its index, up to 10 minutes
    (pkg/controller/job, backoff_utils.go). Failures that the policy ignores do not count as retries, but they do here.
    """
    binding, supervised = resolution.binding, resolution.supervised
    waits = delayed(binding, supervised) or binding.recovery.keeps_evicted
    if resolution.pool.spot is None or context.run.on_disruption == "fail" or not waits:
        return
    cost = incident(binding, resolution.needs, supervised, resolution.plan.recovery)
    message = f"nodes of pool {resolution.plan.world.pool} are reclaimed, and with each eviction of a pod the run waits: {cost}"
    others = targets(context, resolution, lambda binding: not delayed(binding, supervised) and not binding.recovery.keeps_evicted)
    fix = f"use target {by_cost(resolution, others)}; or accept the wait" if others else _ACCEPT
    yield found("TW455", context.locate.run("/target" if context.run.target else "/topology"), message, fix)


def impatience(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Somebody who evicts the whole run, or the rest of it, before what it waits for can be there."""
    run, kueue, binding = context.run, context.cluster.kueue, resolution.binding
    waits, fix = kueue.wait_for_pods_ready if kueue and run.queue else None, "raise it in cluster and profile; or waive this"
    if waits and resolution.plan.data and run.peer_wait > waits.timeout:
        message = f"pods are ready once their data is there, and Kueue suspends the run {waits.timeout} after it is admitted"
        where = context.locate.cluster("/kueue/wait_for_pods_ready/timeout")
        yield found("TW468", where, f"{message}: run {run.run} lets them wait {run.peer_wait}", fix)
    if run.on_disruption == "fail" or not delayed(binding, resolution.supervised):
        return
    for one in impatient(run, context.cluster, resolution.needs, TARGETS[resolution.plan.target].operators):
        if losses := loss_beyond(one.after) if one.after else None:
            back = f"a pod that is lost {counted(losses, 'time')} comes back after {delay(losses)} s"
            message = f"{back}, and before that {one.said}"
            yield found("TW468", context.locate.at(one.source), message, fix)


def recovery(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Pods that cannot stay, or that somebody would evict while they wait."""
    planned, asked = resolution.plan.recovery, context.run.recovery
    if asked == "whole-job" or planned is None or planned.in_place:
        return
    if asked:
        message = f"the run says that it recovers in place, and all of its pods end with the first: {planned.why_not}"
        fix = "write `recovery: whole-job`; or use a target whose pods stay, and a recovery_wait below others' patience"
        yield found("TW479", context.locate.run("/recovery"), message, fix)
    elif not takes_others(resolution.needs, resolution.binding):
        in_the_way = evicting(context.run, context.cluster, resolution.needs, TARGETS[resolution.plan.target].operators)
        stated = " and ".join(one.source.removeprefix("cluster:") for one in in_the_way)
        message = f"all pods of the run end with the first, though its target would keep the others: {planned.why_not}"
        fix = f"where the cluster leaves pods alone that wait {context.run.recovery_wait}, say so in {stated} of the profile; "
        yield milder("TW479", context.locate.run("/recovery"), message, f"{fix}or write `recovery: whole-job`")


def disruption(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A rule of a Job ends the run at an eviction; other controllers make a new pod, or count a failure like any other."""
    run, recovery = context.run, resolution.binding.recovery
    if recovery.disruption_rule:
        return
    ends = recovery.may_end and run.restarts == 0
    asked = {"/on_disruption": run.on_disruption == "fail" and not ends, "/exit_codes": bool(run.exit_codes)}
    asked |= {f"/roles/{name}/exit_codes": bool(parts.exit_codes) for name, parts in run.roles.items()}
    for pointer in (pointer for pointer, stated in asked.items() if stated):
        key = pointer.rpartition("/")[2]
        what, said = ("evicted pods", "`on_disruption: fail`") if key == "on_disruption" else ("exit codes", "`exit_codes`")
        message = f"the controller of a {resolution.plan.target_title} has no rule for {what}, so {said} would do nothing"
        others = targets(context, resolution, lambda binding: binding.recovery.disruption_rule)
        fix = f"use target {' or '.join(others)}; or remove {key}" if others else f"remove {key}"
        if key == "on_disruption" and recovery.may_end:
            fix = f"add `restarts: 0`, so that no pod comes back; or {fix}"
        yield found("TW456", context.locate.run(pointer), message, fix)


_ACCEPT = "accept the wait, or use a pool without spot"


def targets(context: Context, resolution: Resolution, fit: Callable[[Binding], bool]) -> dict[str, Binding]:
    """Targets that the cluster has and that would carry the run with such a binding."""
    answers = {name: _bound(target, context, resolution) for name, target in TARGETS.items()}
    return {name: answer for name, answer in answers.items() if isinstance(answer, Binding) and fit(answer)}


def by_cost(resolution: Resolution, others: Mapping[str, Binding]) -> str:
    """Names of targets, each with what an eviction costs there; those come first whose pods come back without a delay."""
    run, needs, supervised = resolution.run, resolution.needs, resolution.supervised
    planned = {name: plan_recovery(run, resolution.cluster, needs, others[name], TARGETS[name].operators) for name in others}
    costs = {name: incident(others[name], needs, supervised, planned[name]) for name in others}
    order = sorted(others, key=lambda name: (others[name].recovery.keeps_evicted, delayed(others[name], supervised)))
    return " or ".join(f"{name} ({costs[name]})" if costs[name] else name for name in order)


def _bound(target: Target, context: Context, resolution: Resolution) -> Binding | Refusal | None:
    needed = (target.operator, *target.depends_on) if target.operator else ()
    there = all(operator.name in context.cluster.operators for operator in needed)
    there = there and release(context.cluster.kubernetes) >= target.minimum_kubernetes
    return answer(target, resolution.needs, context.cluster) if there else None


RUN = (queue, topology_level, by_hand)
PLAN = (
    gang, sent_elsewhere, grouped_anyway, watched, put_into_default, left_to_kueue, quota, two_gates, impatience, evictions,
    recovery, disruption,
)

def claims_are_served(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """Dynamic resource allocation is on by default from 1.34 on (KEP-4381), and pods have claims in today's form from 1.31 on.

    Kueue admits pods with claims from 0.18 on, and only those that name a template (kueue, pkg/dra/claims.go).
    """
    claims = {
        claim["name"]: (claim, pod.where(context.locate, f"/resourceClaims/{number}"))
        for pod in pods for number, claim in enumerate(pod.found.spec.get("resourceClaims") or [])
    }
    if not claims:
        return
    where, cluster = next(iter(claims.values()))[1], context.cluster
    minor = int(cluster.kubernetes.split(".")[1])
    if minor < 31:
        message = f"Kubernetes {cluster.kubernetes} does not know resource claims in this form"
        yield found("TW307", where, message, "remove it, or upgrade to 1.34 or newer")
    elif minor < 34:
        message = f"Kubernetes {cluster.kubernetes} gives pods what they claim only where DynamicResourceAllocation is on"
        yield found("TW462", where, message, "waive this where it is on, in all parts of Kubernetes; or upgrade to 1.34 or newer")
    if context.run.queue is None or cluster.kueue is None:
        return
    if not CLAIMS.of(cluster.kueue.version):
        message = f"Kueue {cluster.kueue.version} admits no pod with resource claims"
        yield found("TW463", where, message, "upgrade it to 0.18, and map the device classes there; or remove queue")
    for name, where in ((name, where) for name, (claim, where) in claims.items() if "resourceClaimName" in claim):
        message = f"{name} names an existing ResourceClaim, and Kueue admits only claims made from templates"
        yield found("TW463", where, message, "write template, with a ResourceClaimTemplate; or remove queue")


PODS = (slices, priority, claims_are_served)
