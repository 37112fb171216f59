"""Indexed Job: a plain ``batch/v1`` Job with a headless Service; needs no operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.handshake import Binding, Guarantee, Needs, Refusal, Rendezvous, Role, Success
from trainwright.manifest import config
from trainwright.manifest.labels import object_labels
from trainwright.manifest.ownership import Owned
from trainwright.manifest.pod import pod_template, template_constants
from trainwright.manifest.why import Why
from trainwright.plan import Resolution
from trainwright_trainer.contract import Disposition, codes_with
from trainwright_trainer.contract.layout import HTTP_PORT, RENDEZVOUS_PORT

Tree = dict[str, Any]

ROLE = "node"
INDEX_LABEL = "metadata.labels['batch.kubernetes.io/job-completion-index']"


class IndexedJob:
    """One completion index a node; pod ``<job>-<i>`` is reachable as ``<job>-<i>.<service>``."""

    name = "indexed-job"
    title = "Indexed Job"
    minimum_kubernetes = (1, 33)
    """backoffLimitPerIndex is stable from 1.33 on (KEP-3850), podFailurePolicy from 1.31 on (KEP-3329)."""
    templates: Mapping[str, tuple[str, str]] = {ROLE: ("Job", "/spec/template")}
    mutable: Mapping[str, tuple[str, ...]] = {}

    def bind(self, needs: Needs) -> Binding | Refusal:
        other = "choose a target whose operator knows this topology"
        if needs.rendezvous is not Rendezvous.STATIC:
            return Refusal(
                f"a Job gives each pod a fixed index and nothing else, which does not make a {needs.rendezvous.value} rendezvous",
                other,
            )
        if needs.elastic:
            return Refusal("a Job with fixed indexes cannot change the number of its nodes while it runs", other)
        if needs.success is not Success.ALL_RANKS:
            return Refusal(f"a Job is complete when every index is, not when {needs.success.value}", other)
        return Binding(
            roles=(Role(name=ROLE, pods=needs.nodes, host="{name}-{index}.{name}", container="trainer"),),
            rank_zero_host="{name}-0.{name}",
            rendezvous_port=RENDEZVOUS_PORT,
            node_index_env="JOB_COMPLETION_INDEX",
            injects={"JOB_COMPLETION_INDEX": "the pod's completion index, set by the Job controller"},
            renders={"PET_NODE_RANK": INDEX_LABEL},
            guarantees=frozenset(Guarantee),
            generated_names=(f"{{name}}-{needs.nodes - 1}",),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        objects = [] if resolution.spec is None else [config.specification_map(resolution)]
        return [*objects, _service(resolution), _job(resolution)]

    constants: Mapping[str, str] = {
        **config.CONSTANTS,
        "Service": "gives every pod a DNS name: <pod host name>.<service>",
        "Service/metadata": "named as the pods' subdomain says",
        "Service/metadata/labels": "labels of the run's objects",
        "Service/spec/clusterIP": "headless: names resolve to the pods themselves",
        "Service/spec/publishNotReadyAddresses": "ranks must find each other before they are ready",
        "Service/spec/selector": "the label that the Job controller puts on the pods of this Job",
        "Service/spec/ports": "what the pods listen on",
        "Job": "the run itself",
        "Job/metadata": "run name and identity hash: an edit that would change a pod is a new object",
        "Job/metadata/labels": "labels of the run's objects; free to change",
        "Job/spec/completionMode": "each pod has a fixed index, which decides its ranks",
        "Job/spec/maxFailedIndexes": "one index that used up its retries ends the run: no rank can be missing",
        "Job/spec/podReplacementPolicy": "a new pod starts when the old one has ended, never beside it",
        "Job/spec/podFailurePolicy": "what to do with a failed pod, from the trainer's table of exit codes; the first match wins",
        **template_constants("Job/spec/template"),
    }

    owned: Mapping[str, tuple[Owned, ...]] = {
        "ConfigMap": config.OWNED,
        "Service": (
            Owned(
                r"/spec/(selector.*|type|clusterIPs?(/.*)?|externalName|publishNotReadyAddresses)",
                "the address of the ranks",
                "remove it: peers find each other by this headless Service before they are ready",
            ),
            Owned(r"/spec/ports.*", "the ports", "remove it: the plan decides ports"),
        ),
        "Job": (
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
            Owned(r"/spec/(selector.*|manualSelector|managedBy)", "how the Job finds its pods", "remove it"),
        ),
    }


def _service(resolution: Resolution) -> Tree:
    plan = resolution.plan
    ports = [{"name": "rendezvous", "port": plan.rendezvous.port, "targetPort": "rendezvous"}]
    if resolution.spec is not None:
        ports.append({"name": "control", "port": plan.rendezvous.control_port, "targetPort": "control"})
        ports.append({"name": "http", "port": HTTP_PORT, "targetPort": "http"})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": object_labels(resolution.run, plan)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": plan.name},
            "ports": ports,
        },
    }


def _job(resolution: Resolution) -> Tree:
    run, plan, role = resolution.run, resolution.plan, resolution.binding.roles[0]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": object_labels(run, plan)},
        "spec": {
            "completionMode": "Indexed",
            "completions": Why(role.pods, "run:/topology/nodes", "one index a node"),
            "parallelism": Why(role.pods, "run:/topology/nodes", "all nodes at once: ranks wait for each other"),
            "backoffLimitPerIndex": Why(
                run.restarts,
                "run:/restarts",
                "retries are counted per index, so one incident on N pods "
                "delays none of them; a Job-wide limit would back off exponentially with N",
            ),
            "maxFailedIndexes": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": _failure_rules(resolution, role)},
            "template": pod_template(resolution, role),
        },
    }


def _failure_rules(resolution: Resolution, role: Role) -> list[Tree | Why]:
    """Permanent codes end the Job; an evicted pod or a lost peer costs no retry; everything else counts."""
    disrupted: Tree = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    evicted = Why(disrupted, "trainwright", "evicted, preempted or drained: not the run's fault")
    if resolution.spec is None:
        return [evicted]

    def on_codes(action: str, disposition: Disposition, reason: str) -> Why:
        codes = {"containerName": role.container, "operator": "In", "values": list(codes_with(disposition))}
        return Why({"action": action, "onExitCodes": codes}, "trainwright", reason)

    return [
        on_codes("FailJob", Disposition.PERMANENT, "the same pod would fail again: end the run and keep the message"),
        evicted,
        on_codes("Ignore", Disposition.IGNORED, "peer lost or preempted: come back together, at no cost"),
    ]
