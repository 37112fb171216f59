"""JobSet: one replicated Job whose pods all start again together (jobset.x-k8s.io/v1alpha2)."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.handshake import Binding, Guarantee, Needs, OperatorName, Refusal, Role, Success
from trainwright.manifest import volumes
from trainwright.manifest.failure import failure_rules_below_set, set_rules
from trainwright.manifest.pod import pod_template, template_constants
from trainwright.manifest.provenance import Owned, Tree, Why
from trainwright.manifest.scheduling import top_labels
from trainwright.plan import Resolution
from trainwright.target.base import JOB_SET, Releases, Unshared
from trainwright.target.index import INDEX_LABEL, INDEX_VARIABLES, INJECTED
from trainwright_trainer.contract.layout import RENDEZVOUS_PORT

ROLE = "node"
JOB = "/spec/replicatedJobs/0/template/spec"


class JobSet(Unshared):
    """One Job ``<name>-node-0``; pod ``<name>-node-0-<i>`` is reachable as ``<name>-node-0-<i>.<name>``."""

    name = "job-set"
    title = "JobSet"
    operator: OperatorName | None = "jobset"
    releases: Releases | None = JOB_SET
    kueue = "jobset.x-k8s.io/jobset"
    minimum_kubernetes = (1, 31)
    """podFailurePolicy is stable from 1.31 on (KEP-3329)."""
    templates: Mapping[str, tuple[str, str]] = {ROLE: ("JobSet", f"{JOB}/template")}
    mutable: Mapping[str, tuple[str, ...]] = {"JobSet": ("/spec/ttlSecondsAfterFinished",)}

    def bind(self, needs: Needs) -> Binding | Refusal:
        if needs.elastic:
            return Refusal("a JobSet has a fixed number of pods (elastic ones are an alpha feature)", "remove topology.elastic")
        if needs.rendezvous not in INDEX_VARIABLES:
            reason = f"a JobSet gives its pods names and indexes, which makes no rendezvous of kind {needs.rendezvous.value}"
            return Refusal(reason, "choose a target whose operator makes it")
        if needs.success is not Success.ALL_RANKS:
            reason = f"this JobSet is complete when its Job is, not when {needs.success.value}"
            return Refusal(reason, "choose a target whose operator knows that rule")
        return Binding(
            roles=(Role(name=ROLE, pods=needs.nodes, host="{name}-node-0-{index}.{name}", container="trainer"),),
            rank_zero_host="{name}-node-0-0.{name}",
            rendezvous_port=RENDEZVOUS_PORT,
            node_index_env="JOB_COMPLETION_INDEX",
            injects=INJECTED,
            renders={INDEX_VARIABLES[needs.rendezvous]: INDEX_LABEL},
            guarantees=frozenset(Guarantee),
            generated_names=(f"{{name}}-node-0-{needs.nodes - 1}-abcde",),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [*volumes.configuration(resolution), _job_set(resolution)]

    constants: Mapping[str, str] = {
        **volumes.CONSTANTS,
        "JobSet": "the run itself",
        "JobSet/metadata": "run name and identity hash: an edit that would change a pod is a new object",
        "JobSet/metadata/labels": "labels of the run's objects; free to change",
        "JobSet/spec/network": "a headless Service named like the JobSet: every pod has a DNS name, before it is ready too",
        "JobSet/spec/successPolicy": "the run is done when its one Job is",
        "JobSet/spec/failurePolicy/restartStrategy": "all pods go, and all come back: ranks cannot do without each other",
        "JobSet/spec/failurePolicy/rules": "an exit code that would come again ends the run at once",
        "JobSet/spec/replicatedJobs": "one Job for all nodes, so that an index is a node",
        f"JobSet{JOB}/completionMode": "each pod has a fixed index, which decides its ranks",
        f"JobSet{JOB}/backoffLimit": "the first failure that counts goes to the JobSet, which starts all pods again; "
        "retries of one pod would come first and be of no use (kubernetes-sigs/jobset#825)",
        f"JobSet{JOB}/podReplacementPolicy": "a new pod starts when the old one has ended, never beside it",
        f"JobSet{JOB}/podFailurePolicy": "what to do with a failed pod, by the trainer's exit codes; the first match wins",
        **template_constants(f"JobSet{JOB}/template"),
    }

    owned: Mapping[str, tuple[Owned, ...]] = {
        "ConfigMap": volumes.OWNED,
        "JobSet": (
            Owned(r"/spec/suspend", "the start of the run", "remove it: a queue controller suspends and resumes on its own"),
            Owned(
                r"/spec/ttlSecondsAfterFinished",
                "the life of the run",
                "remove it: Argo CD would make a deleted JobSet again, and train again",
            ),
            Owned(r"/spec/network.*", "the address of the ranks", "remove it: peers find each other by it"),
            Owned(r"/spec/(successPolicy|failurePolicy|startupPolicy).*", "how the run ends and starts again", "change restarts"),
            Owned(r"/spec/(coordinator.*|managedBy|volumeClaimPolicies.*)", "how the JobSet finds its pods", "remove it"),
            Owned(r"/spec/replicatedJobs/0/(name|replicas|groupName|dependsOn.*)", "the one Job of the run", "remove it"),
            Owned(f"{JOB}/(completions|parallelism|completionMode)", "the number of pods", "change topology.nodes"),
            Owned(f"{JOB}/(backoffLimit\\w*|maxFailedIndexes)", "the retry budget", "change restarts"),
            Owned(
                f"{JOB}/(podFailurePolicy|podReplacementPolicy|successPolicy|suspend|ttlSecondsAfterFinished|selector|"
                "manualSelector|managedBy).*",
                "the failure rules, made from the trainer's exit codes, and the life of the Job",
                "remove it: all ranks come back together, or none does",
            ),
        ),
    }


def _job_set(resolution: Resolution) -> Tree:
    run, plan = resolution.run, resolution.plan
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": top_labels(resolution)},
        "spec": {
            "network": {
                "enableDNSHostnames": True,
                "subdomain": Why(plan.name, "trainwright", "name of the Service, and second part of every pod's DNS name"),
                "publishNotReadyAddresses": True,
            },
            "successPolicy": {"operator": "All"},
            "failurePolicy": {
                "maxRestarts": Why(run.restarts, "run:/restarts", "restarts of all pods together"),
                "restartStrategy": "Recreate",
                "rules": set_rules(resolution),
            },
            "replicatedJobs": [{"name": ROLE, "replicas": 1, "template": {"spec": _job(resolution)}}],
        },
    }


def _job(resolution: Resolution) -> Tree:
    role = resolution.binding.roles[0]
    return {
        "completionMode": "Indexed",
        "completions": Why(role.pods, "run:/topology/nodes", "one index a node"),
        "parallelism": Why(role.pods, "run:/topology/nodes", "all nodes at once: ranks wait for each other"),
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": failure_rules_below_set(resolution, role)},
        "template": pod_template(resolution, role, {"restartPolicy": "Never"}),
    }
