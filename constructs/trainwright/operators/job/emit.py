"""Indexed Job: a plain ``batch/v1`` Job with a headless Service; needs no operator."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, Needs, Recovery, Refusal, Role, Success
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.kueue import managed_by
from trainwright.manifest.labels import namespace_of, object_labels
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.life import deadline, time_to_live
from trainwright.manifest.template.pod import headless, pod_template, template_reasons
from trainwright.manifest.template.scheduling import top_metadata
from trainwright.operators.base import KnownOperator, Target, Template, admitted, owned_manager, run_kind
from trainwright.operators.job.child_jobs import (
    BY_EXIT_CODE,
    INDEX_LABEL,
    INDEX_VARIABLE,
    INDEX_VARIABLES,
    INJECTED,
    NUMBERED,
    REPLACED,
    failure_rules,
    retries,
    together,
)
from trainwright.plan import Resolution

JOB, SERVICE = GroupKind("batch", "Job"), GroupKind("", "Service")
ROLE = "node"


class IndexedJob(Target):
    """One completion index a node; pod ``<job>-<i>`` is reachable as ``<job>-<i>.<service>``."""

    name = "indexed-job"
    title = "Indexed Job"
    kind = JOB
    operator: KnownOperator | None = None
    kueue: str | None = "batch/job"
    queue_writes: tuple[str, ...] = admitted(".spec.template")
    minimum_kubernetes = (1, 33)
    """backoffLimitPerIndex is stable from 1.33 on (KEP-3850), podFailurePolicy from 1.31 on (KEP-3329)."""
    templates: Mapping[str, Template] = {ROLE: (JOB, "/spec/template")}
    reserved_labels: tuple[str, ...] = ("batch.kubernetes.io/", "job-name", "controller-uid")

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if needs.elastic:
            # completions and parallelism may change together (KEP-3715): measured, in 0.4 s, and the other pods stay
            reason = "this release does not change the number of a Job's nodes while it runs; Kubernetes itself could"
            return Refusal(reason, "remove topology.elastic")
        if needs.rendezvous not in INDEX_VARIABLES:
            return self.lacks("a Job gives each pod a fixed index and nothing else", needs)
        if needs.success is not Success.ALL_RANKS:
            reason = f"a Job is complete when every index is, not when {needs.success.value}"
            return Refusal(reason, "choose a target whose operator knows that rule")
        domain = ".{name}" if needs.talk else ""
        return Binding(
            roles=(Role(name=ROLE, pods=needs.nodes, host="{name}-{index}" + domain, container="trainer"),),
            rank_zero_host="{name}-0" + domain,
            node_index_env=INDEX_VARIABLE,
            index_field=INDEX_LABEL,
            injects=INJECTED,
            renders={INDEX_VARIABLES[needs.rendezvous]: INDEX_LABEL},
            recovery=Recovery(disruption_rule=True, delays="all"),
            generated_names=(f"{{name}}-{needs.nodes - 1}",),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [_service(resolution), _job(resolution)] if resolution.needs.talk else [_job(resolution)]

    kinds: tuple[ObjectKind, ...] = (
        ObjectKind(
            SERVICE,
            reasons={
                "": "gives every pod a DNS name: <pod host name>.<service>",
                "/metadata": "named as the pods' subdomain says",
                "/metadata/labels": "labels of the run's objects",
                "/spec/clusterIP": "headless: names resolve to the pods themselves",
                "/spec/publishNotReadyAddresses": "ranks must find each other before they are ready",
                "/spec/selector": "the label that the Job controller puts on the pods of this Job",
                "/spec/ports": "what the pods listen on",
            },
            owned=(
                Owned(
                    r"/spec/(selector.*|type|clusterIPs?(/.*)?|externalName|externalIPs(/.*)?|loadBalancer.*|publishNotReadyAddresses)",
                    "the address of the ranks",
                    "remove it: peers find each other by this headless Service before they are ready",
                ),
                Owned(r"/spec/ports.*", "the ports", "remove it: the plan decides ports"),
            ),
        ),
        run_kind(
            JOB,
            reasons={
                "/spec/completionMode": NUMBERED,
                "/spec/maxFailedIndexes": "one index that used up its retries ends the run: no rank can be missing",
                "/spec/podReplacementPolicy": REPLACED,
                "/spec/podFailurePolicy": BY_EXIT_CODE,
                **template_reasons("/spec/template"),
            },
            owned=(
                Owned(
                    r"/spec/suspend",
                    "the start of the run",
                    "remove it: a queue controller suspends and resumes on its own, and Argo CD would fight it",
                ),
                Owned(
                    r"/spec/ttlSecondsAfterFinished",
                    "the life of the run",
                    "remove it: Argo CD would make a deleted Job again, and train again",
                ),
                Owned(r"/spec/(completions|parallelism|completionMode)", "the number of pods", "change topology.nodes"),
                Owned(r"/spec/(backoffLimit|backoffLimitPerIndex|maxFailedIndexes)", "the retry budget", "change restarts"),
                Owned(
                    r"/spec/(podFailurePolicy|podReplacementPolicy|successPolicy).*",
                    "the failure rules, made from the trainer's exit codes",
                    "remove it: all ranks come back together, or none does",
                ),
                Owned(r"/spec/(selector.*|manualSelector)", "how the Job finds its pods", "remove it: the controller writes it"),
                owned_manager("/spec"),
            ),
            mutable=("/spec/ttlSecondsAfterFinished",),
        ),
    )


TARGET: Target = IndexedJob()


def _service(resolution: Resolution) -> Tree:
    plan, process = resolution.plan, resolution.processes[ROLE]
    ports = [
        {"name": port.name, "port": port.number, "targetPort": port.name, "protocol": "TCP"} for port in process.ports
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": plan.name, "namespace": namespace_of(plan), "labels": object_labels(resolution.run)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": plan.name},
            "ports": ports,
        },
    }


def _job(resolution: Resolution) -> Tree:
    run, role = resolution.run, resolution.binding.roles[0]
    address = headless(resolution) if resolution.needs.talk else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": top_metadata(resolution),
        "spec": {
            "completionMode": "Indexed",
            "completions": Why(role.pods, "run:/topology/nodes", "one index a node"),
            "parallelism": Why(role.pods, "run:/topology/nodes", together(resolution)),
            **retries(resolution),
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": failure_rules(resolution, role)},
            **managed_by(resolution),
            **deadline(run),
            **time_to_live(run),
            "template": pod_template(resolution, role, {"restartPolicy": "Never", **address}),
        },
    }
