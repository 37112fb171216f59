"""What targets share whose pods are made by the Job controller: the index, and what becomes of a pod that fails."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.handshake import MOST_FURTHER, Recovery, Rendezvous, Role
from trainwright.manifest.kinds import Owned
from trainwright.manifest.provenance import Tree, Why
from trainwright.operators.base import owned_manager
from trainwright.plan import Resolution
from trainwright.rendezvous import jax, torch, tracker
from trainwright_trainer.contract import IN_PLACE, Disposition, codes_with

INDEX_VARIABLES = {
    Rendezvous.STATIC: torch.INDEX,
    Rendezvous.DMLC_TRACKER: tracker.INDEX,
    Rendezvous.JAX_COORDINATOR: jax.INDEX,
    Rendezvous.NONE: "NODE_RANK",
}
"""What a program that our supervisor does not start reads its pod's index from; other rendezvous need more than an index."""

INDEX_KEY = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of a pod, set by the Job controller (feature PodIndexLabel, on by default since Kubernetes 1.28)."""
INDEX_LABEL = f"metadata.labels['{INDEX_KEY}']"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

INJECTED = {INDEX_VARIABLE: "the pod's completion index, set by the Job controller"}

NUMBERED = "each pod has a fixed index, which decides its ranks"
REPLACED = "a new pod starts when the old one has ended, never beside it"
FIRST_FAILURE = (
    "the first failure that counts goes to the JobSet, which starts all pods again; retries of one pod would come first and be "
    "of no use (kubernetes-sigs/jobset#825)"
)
COUNTED_APART = (
    f"{FIRST_FAILURE}. Counted per index: with a limit for the whole Job the pods that one eviction takes along would delay each "
    "other, 8 of them by 10 minutes"
)
BELOW_JOB_SET = Recovery(disruption_rule=True, delays="ignored", returns="all pods start again, about 2 s later")
"""A JobSet whose Job has failed by an eviction starts all pods again."""
BY_EXIT_CODE = "what to do with a failed pod, from the trainer's table of exit codes; the first match wins"
"""Reasons for the constants of a Job."""


def retries(resolution: Resolution) -> Tree:
    """Of a Job whose indexes come back one by one. Without ``maxFailedIndexes`` an index that has used up its own leaves the
    others alone, as pods that do not communicate can do; the Job has failed once all have ended."""
    limit = Why(
        resolution.run.restarts,
        "run:/restarts",
        "retries are counted per index, so one incident on N pods "
        "delays none of them; a Job-wide limit would back off exponentially with N",
    )
    return {"backoffLimitPerIndex": limit, **({"maxFailedIndexes": 0} if resolution.needs.talk else {})}


def none_of_its_own(resolution: Resolution, role: Role) -> Tree:
    """Of a Job below a JobSet. Where its policy ignores failures, a limit for the whole Job would delay the next pods by all of
    them (:func:`trainwright.plan.incident.delay`)."""
    if resolution.in_place and not role.further:
        return retries(resolution)
    if resolution.processes[role.name].supervised:
        return {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}
    return {"backoffLimit": 0}


def restarts_of_the_set(resolution: Resolution) -> Why:
    """How often a JobSet may start all of its pods again."""
    if resolution.in_place and not resolution.needs.further:
        return Why(0, "trainwright", "pods come back one by one: one that has used up its retries ends the run")
    return Why(resolution.run.restarts, "run:/restarts", "restarts of all pods together")


def reasons_of_none(job: str) -> dict[str, str]:
    """Why it has none. ``job`` is the pointer of its spec."""
    return {
        f"{job}/backoffLimit": FIRST_FAILURE,
        f"{job}/backoffLimitPerIndex": COUNTED_APART,
        f"{job}/maxFailedIndexes": "one index that failed fails the Job: no rank can be missing",
    }


def together(resolution: Resolution) -> str:
    """Why as many pods run at the same time as there are indexes."""
    return "all nodes at once: ranks wait for each other" if resolution.needs.talk else "as many at once as find a node"


MOST_JOBS = MOST_FURTHER + 2
"""Of a JobSet: nodes, a launcher, and further roles."""


def in_order(roles: Sequence[Role]) -> list[Role]:
    """Roles in the order of their Jobs: a Job can depend on those before it alone."""
    first = _first(roles)
    return [*first, *(role for role in roles if role not in first)]


def _first(roles: Sequence[Role]) -> list[Role]:
    """Roles whose pods are ready, or have ended, before those that hold ranks start."""
    return [role for role in roles if role.further and role.further.starts in ("first", "before")]


def waits_for(role: Role, roles: Sequence[Role], nodes: str) -> Tree:
    """What is ready or complete before a Job starts. An older JobSet takes one name there, so those that come first start one by
    one.

    Args:
        roles: all of them.
        nodes: name of the Job of the nodes.
    """
    first = _first(roles)
    if role.further and role.further.starts == "after":
        return _depends_on(nodes, role, "as asked: the nodes are ready first")
    awaited = first[: first.index(role)] if role in first else [] if role.further else first
    if not awaited:
        return {}
    ends = awaited[-1].further and awaited[-1].further.starts == "first"
    said = "as asked: its pods have ended first" if ends else "as asked: its pods are ready first"
    return _depends_on(awaited[-1].name, awaited[-1], said, "Complete" if ends else "Ready")


def _depends_on(name: str, stated: Role, reason: str, status: str = "Ready") -> Tree:
    return {"dependsOn": Why([{"name": name, "status": status}], f"run:/roles/{stated.name}/starts", reason)}


def counted_jobs(roles: Sequence[Role], own: Sequence[str]) -> Tree:
    """Which Jobs must be complete, where these are not all; ``own`` are those of the topology."""
    further = [role.further for role in roles if role.further]
    if all(one.must_end for one in further):
        return {}
    names = [*own, *(one.name for one in further if one.must_end)]
    reason = "the run is done when its ranks are; then the JobSet takes the other pods down"
    return {"targetReplicatedJobs": Why(names, "trainwright", reason)}


def owned_below_job_set(job: str) -> tuple[Owned, ...]:
    """What no override may touch of a Job below a JobSet. ``job`` is a pattern of the pointer of its spec."""
    return (
        Owned(f"{job}/(completions|parallelism|completionMode)", "the number of pods", "change topology.nodes"),
        Owned(f"{job}/(backoffLimit\\w*|maxFailedIndexes)", "the retry budget", "change restarts"),
        Owned(
            f"{job}/(podFailurePolicy|podReplacementPolicy|successPolicy|suspend|ttlSecondsAfterFinished|selector|manualSelector).*",
            "the failure rules, made from the trainer's exit codes, and the life of the Job",
            "remove it: all ranks come back together, or none does",
        ),
        owned_manager(job),
    )


def failure_rules(resolution: Resolution, role: Role) -> list[Tree | Why]:
    """Permanent codes end the Job; an evicted pod or a lost peer costs no retry; everything else counts. The first match wins."""
    evicted = _on_disruption("Ignore", "evicted, preempted or drained: not the run's fault")
    if _ends(resolution):
        evicted = _on_disruption("FailJob", "evicted, preempted or drained: the run fails", "run:/on_disruption")
    if not resolution.processes[role.name].supervised:
        return [evicted, *_stated_codes(resolution, role)]

    but = () if resolution.in_place else IN_PLACE

    def on_codes(action: str, disposition: Disposition, reason: str) -> Why:
        codes = {"containerName": role.container, "operator": "In", "values": list(codes_with(disposition, but))}
        return Why({"action": action, "onExitCodes": codes}, "trainwright", reason)

    return [
        on_codes("FailJob", Disposition.PERMANENT, "the same pod would fail again: end the run and keep the message"),
        evicted,
        on_codes("Ignore", Disposition.IGNORED, "peer lost or preempted: come back together, at no cost"),
    ]


def failure_rules_below_job_set(resolution: Resolution, role: Role) -> list[Tree | Why]:
    """The same for a Job of a JobSet. Without the supervisor an evicted pod would come back alone, to peers that wait for the one
    that is gone until NCCL's own time is over: so its Job fails, and the JobSet starts all pods again.
    """
    if resolution.processes[role.name].supervised or _ends(resolution):
        return failure_rules(resolution, role)
    if role.name in _ending(resolution):
        counted = "evicted, preempted or drained: it counts, since a JobSet cannot tell it from an exit code that ends the run"
        return [_on_disruption("Count", counted), *_stated_codes(resolution, role)]
    evicted = _on_disruption("FailJob", "evicted, preempted or drained: nobody tells its peers, so all start again")
    return [evicted, *_stated_codes(resolution, role, ignore="FailJob")]


def _stated_codes(resolution: Resolution, role: Role, ignore: str = "Ignore") -> list[Why]:
    """What the run says of the exit codes of a program that nobody here knows. ``ignore`` is what brings it back at no cost."""
    run, actions = resolution.run, {"fail": "FailJob", "ignore": ignore, "count": "Count"}
    stated, source = (run.roles[role.name].exit_codes, f"run:/roles/{role.name}") if role.further else (run.exit_codes, "run:")
    found = []
    for number, one in enumerate(stated):
        which: Tree = {"containerName": one.container or role.container, "operator": "In" if one.codes else "NotIn"}
        rule: Tree = {"action": actions[one.means], "onExitCodes": which | {"values": one.numbers}}
        found.append(Why(rule, f"{source}/exit_codes/{number}", "as asked"))
    return found


def _ending(resolution: Resolution) -> list[str]:
    """Roles without the supervisor that have exit codes with which the run has failed; where it has none, all of them then."""
    run = resolution.run
    further = [name for name, parts in run.roles.items() if any(one.means == "fail" for one in parts.exit_codes)]
    if not resolution.supervised and (further or any(one.means == "fail" for one in run.exit_codes)):
        return [role.name for role in resolution.binding.roles]
    return further


def job_set_rules(resolution: Resolution, own: Sequence[str]) -> list[Tree | Why]:
    """What a JobSet does with a Job that failed by its policy; any other failure starts all Jobs again, and counts. ``own`` are
    the Jobs of the topology: a program of a further role knows nothing of our exit codes.
    """
    roles, ending, reasons = resolution.binding.roles, _ending(resolution), {"onJobFailureReasons": ["PodFailurePolicy"]}
    permanent: Tree = {"name": "permanent", "action": "FailJobSet", **reasons}
    disrupted: Tree = {"name": "disrupted", "action": "RestartJobSetAndIgnoreMaxRestarts", **reasons}
    uncounted = "an eviction is not the run's fault: all pods start again, and it costs no restart"
    if _ends(resolution) or (ending and not resolution.supervised):
        return [permanent]
    if not resolution.supervised:
        return [Why(disrupted, "trainwright", uncounted)]
    further = [role.name for role in roles if role.further and role.name not in ending]
    if not further:
        return [permanent]
    of_further = Why(disrupted | {"targetReplicatedJobs": further}, "trainwright", uncounted)
    return [permanent | {"targetReplicatedJobs": [*own, *ending]}, of_further]


def _ends(resolution: Resolution) -> bool:
    return resolution.run.on_disruption == "fail"


def _on_disruption(action: str, reason: str, source: str = "trainwright") -> Why:
    rule: Tree = {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return Why(rule, source, reason)
