"""JobSet: replicated Jobs whose pods all start again together (jobset.x-k8s.io/v1alpha2)."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, Needs, Refusal, Role, Success
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.kueue import managed_by
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.life import deadline, time_to_live
from trainwright.manifest.template.pod import pod_template, template_reasons
from trainwright.manifest.template.scheduling import top_metadata
from trainwright.operators.base import KnownOperator, Target, Template, admitted, further_roles, owned_manager, run_kind
from trainwright.operators.job.child_jobs import (
    BELOW_JOB_SET,
    BY_EXIT_CODE,
    INDEX_LABEL,
    INDEX_VARIABLE,
    INDEX_VARIABLES,
    INJECTED,
    MOST_JOBS,
    NUMBERED,
    REPLACED,
    counted_jobs,
    failure_rules,
    failure_rules_below_job_set,
    in_order,
    job_set_rules,
    none_of_its_own,
    owned_below_job_set,
    reasons_of_none,
    restarts_of_the_set,
    retries,
    together,
    waits_for,
)
from trainwright.operators.jobset.releases import JOB_SET_OPERATOR
from trainwright.plan import Resolution

JOB_SET = GroupKind("jobset.x-k8s.io", "JobSet")
ROLE = "node"
JOBS = "/spec/replicatedJobs"
EACH = f"{JOBS}/[0-9]+"
"""A pattern."""


def job_at(place: int) -> str:
    """Pointer of the spec of a replicated Job."""
    return f"{JOBS}/{place}/template/spec"


def _job_reasons(place: int) -> dict[str, str]:
    job = job_at(place)
    return {
        f"{job}/completionMode": NUMBERED,
        **reasons_of_none(job),
        f"{job}/podReplacementPolicy": REPLACED,
        f"{job}/podFailurePolicy": BY_EXIT_CODE,
        **template_reasons(f"{job}/template"),
    }


class JobSet(Target):
    """One Job ``<name>-node-0``; pod ``<name>-node-0-<i>`` is reachable as ``<name>-node-0-<i>.<name>``. Each further role has
    a Job of its own.
    """

    name = "job-set"
    title = "JobSet"
    kind = JOB_SET
    operator: KnownOperator | None = JOB_SET_OPERATOR
    kueue: str | None = "jobset.x-k8s.io/jobset"
    queue_writes: tuple[str, ...] = admitted(".spec.replicatedJobs[].template.spec.template")
    minimum_kubernetes = (1, 31)
    """podFailurePolicy is stable from 1.31 on (KEP-3329); backoffLimitPerIndex is on by default from 1.29 on (KEP-3850)."""
    templates: Mapping[str, Template] = {ROLE: (JOB_SET, f"{job_at(0)}/template")}
    reserved_labels: tuple[str, ...] = ("jobset.sigs.k8s.io/",)
    renews_deadline = True
    """It is that of the Jobs, which a set that starts again has made anew."""

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if needs.elastic:
            reason = "a JobSet keeps its number of pods (its ElasticJobSet is an alpha feature, off by default)"
            return Refusal(reason, "remove topology.elastic")
        if needs.rendezvous not in INDEX_VARIABLES:
            return self.lacks("a JobSet gives its pods names and indexes", needs)
        if needs.success is not Success.ALL_RANKS:
            reason = f"this JobSet is complete when its Job is, not when {needs.success.value}"
            return Refusal(reason, "choose a target whose operator knows that rule")
        if needs.further and not needs.talk:
            reason = "independent pods have no network, by which further roles could be found"
            return Refusal(reason, "remove these roles", tuple(one.name for one in needs.further))
        domain = ".{name}" if needs.talk else ""
        node = Role(name=ROLE, pods=needs.nodes, host="{name}-node-0-{index}" + domain, container="trainer")
        further = further_roles(needs, "{name}-{role}-0-{index}.{name}", INDEX_LABEL)
        return Binding(
            roles=(node, *further),
            rank_zero_host="{name}-node-0-0" + domain,
            index_field=INDEX_LABEL,
            node_index_env=INDEX_VARIABLE,
            injects=INJECTED,
            renders={INDEX_VARIABLES[needs.rendezvous]: INDEX_LABEL},
            recovery=BELOW_JOB_SET if needs.talk else BELOW_JOB_SET._replace(delays="all"),
            generated_names=tuple(f"{{name}}-{role.name}-0-{role.pods - 1}-abcde" for role in (node, *further)),
        )

    def templates_of(self, binding: Binding) -> Mapping[str, Template]:
        return {role.name: (JOB_SET, f"{job_at(place)}/template") for place, role in enumerate(in_order(binding.roles))}

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [_job_set(resolution)]

    kinds: tuple[ObjectKind, ...] = (
        run_kind(
            JOB_SET,
            reasons={
                "/spec/network": "a headless Service named like the JobSet: every pod has a DNS name, before it is ready too",
                "/spec/successPolicy": "the run is done when its one Job is; with further roles, when that of the nodes is",
                "/spec/failurePolicy/restartStrategy": "all pods go, and all come back: ranks cannot do without each other",
                "/spec/failurePolicy/rules": "an exit code that would come again ends the run at once",
                JOBS: "one Job for all nodes, so that an index is a node, and one for each other role",
                **{pointer: why for place in range(MOST_JOBS) for pointer, why in _job_reasons(place).items()},
            },
            owned=(
                Owned(r"/spec/suspend", "the start of the run", "remove it: a queue controller suspends and resumes on its own"),
                Owned(
                    r"/spec/ttlSecondsAfterFinished",
                    "the life of the run",
                    "remove it: Argo CD would make a deleted JobSet again, and train again",
                ),
                Owned(r"/spec/network.*", "the address of the ranks", "remove it: peers find each other by it"),
                Owned(r"/spec/failurePolicy/maxRestarts", "the retry budget", "change restarts"),
                Owned(
                    r"/spec/(success|failure|startup)Policy.*",
                    "how the run ends and starts again, made from the trainer's exit codes",
                    "remove it: all ranks come back together, or none does; restarts says how often",
                ),
                Owned(
                    r"/spec/(coordinator.*|volumeClaimPolicies.*)",
                    "how pods are found and what they mount",
                    "remove it: peers know rank 0 by its name. A claim is one of mounts: what a JobSet makes is deleted with it",
                ),
                owned_manager("/spec"),
                Owned(
                    f"{EACH}/(name|replicas|groupName|dependsOn.*)",
                    "the Jobs of the run",
                    "remove it, or change roles: pods of another kind are a further role",
                ),
                *owned_below_job_set(f"{EACH}/template/spec"),
            ),
            free=tuple(
                f"{JOBS}/{place}/template/{field}"
                for place in range(MOST_JOBS)
                for field in ("metadata", "spec/activeDeadlineSeconds")
            ),
            mutable=("/spec/ttlSecondsAfterFinished",),
        ),
    )


TARGET: Target = JobSet()


def _job_set(resolution: Resolution) -> Tree:
    run = resolution.run
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": top_metadata(resolution),
        "spec": {
            **(_together(resolution) if resolution.needs.talk else _INDEPENDENT),
            **managed_by(resolution),
            **time_to_live(run),
            "replicatedJobs": [
                {
                    "name": role.name,
                    "replicas": 1,
                    **waits_for(role, resolution.binding.roles, ROLE),
                    "template": {"spec": _job(resolution, role)},
                }
                for role in in_order(resolution.binding.roles)
            ],
        },
    }


def _together(resolution: Resolution) -> Tree:
    """Of pods that find each other, and start again together."""
    plan = resolution.plan
    return {
        "network": {
            "enableDNSHostnames": True,
            "subdomain": Why(plan.name, "trainwright", "name of the Service, and second part of every pod's DNS name"),
            "publishNotReadyAddresses": True,
        },
        "successPolicy": {"operator": "All", **counted_jobs(resolution.binding.roles, [ROLE])},
        "failurePolicy": {
            "maxRestarts": restarts_of_the_set(resolution),
            "restartStrategy": "Recreate",
            "rules": [*job_set_rules(resolution, [ROLE]), *_out_of_time(resolution)],
        },
    }


_INDEPENDENT: Tree = {
    "network": Why(
        {"enableDNSHostnames": False, "publishNotReadyAddresses": True}, "trainwright", "independent pods need no names",
    ),
    "successPolicy": {"operator": "All"},
    "failurePolicy": {
        "maxRestarts": Why(0, "trainwright", "the Job brings back one pod; a restart here would run those again that are done"),
        "restartStrategy": "Recreate",
    },
}
"""Of pods that do not communicate."""


def _out_of_time(resolution: Resolution) -> list[Tree | Why]:
    """A Job that ran out of time would otherwise start again, like any that failed."""
    if resolution.run.deadline is None:
        return []
    rule: Tree = {"name": "deadline", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}
    return [Why(rule, "run:/deadline", "the run has failed")]


def _job(resolution: Resolution, role: Role) -> Tree:
    talk = resolution.needs.talk
    why = "one index a pod" if role.further else "one index a node"
    return {
        "completionMode": "Indexed",
        "completions": Why(role.pods, role.counted_in, why),
        "parallelism": Why(role.pods, role.counted_in, "all pods at once" if role.further else together(resolution)),
        **(none_of_its_own(resolution, role) if talk else retries(resolution)),
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": failure_rules_below_job_set(resolution, role) if talk else failure_rules(resolution, role)
        },
        **(deadline(resolution.run) if role.further is None or role.further.must_end else {}),
        "template": pod_template(resolution, role, {"restartPolicy": "Never"}),
    }
