"""RayJob of KubeRay (ray.io/v1): a Ray cluster that lives as long as the run, and a driver on its head."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, Gang, Guarantee, Needs, Recovery, Refusal, Rendezvous, Role, Share
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.kueue import managed_by
from trainwright.manifest.labels import namespace_of, object_annotations
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.life import deadline
from trainwright.manifest.template.pod import template_reasons
from trainwright.manifest.template.scheduling import top_labels
from trainwright.operators.base import (
    BROUGHT_BACK_ALONE,
    KnownOperator,
    Rule,
    Target,
    Template,
    admitted,
    further_roles,
    owned_manager,
    run_kind,
)
from trainwright.operators.kuberay.cluster import (
    GROUPS,
    HEAD,
    HEAD_POD,
    MOST_GROUPS,
    RAY_PORTS,
    SUBMITTER,
    WORKER,
    group_at,
    group_reasons,
    ray_cluster,
    submitter,
)
from trainwright.operators.kuberay.releases import KUBERAY
from trainwright.operators.kuberay.run_rules import RULES
from trainwright.plan import Resolution
from trainwright.rendezvous.ray import RayPods, cluster_of
from trainwright.run import CommandWorkload
from trainwright.units import GIB, Bytes, Cpu

KIND = GroupKind("ray.io", "RayJob")
GANG_LABEL, PRIORITY_LABEL = "ray.io/gang-scheduling-enabled", "ray.io/priority-class-name"
VOLCANO_QUEUE_LABEL = "volcano.sh/queue-name"
"""What the operator reads on the RayJob where it makes a PodGroup (ray-operator/controllers/ray/batchscheduler/volcano)."""

class RayJob(Target):
    """Each attempt has a cluster of its own, ``<name>-<5 characters>``; workers find the head by its Service."""

    name = "ray-job"
    title = "RayJob"
    kind = KIND
    operator: KnownOperator | None = KUBERAY
    kueue: str | None = "ray.io/rayjob"
    queue_writes: tuple[str, ...] = admitted(
        ".spec.rayClusterSpec.headGroupSpec.template",
        ".spec.rayClusterSpec.workerGroupSpecs[].template",
        ".spec.submitterPodTemplate",
    )
    cannot_carry: Mapping[str, str] = {
        "ttl": "it would delete the cluster, which goes with the run anyway, and leave the RayJob",
        "probes": "the pods run Ray, which KubeRay probes itself; the command is a job on the head",
        "ports": "the program of the run is a job on the head, whose ports are under roles.head.ports",
    }
    renews_deadline = True
    """A retry sets the time of its start anew (ray-operator/controllers/ray/rayjob_controller.go, initRayJobStatusIfNeed)."""
    minimum_kubernetes = (1, 29)
    longest_name = 47
    """The operator adds six characters for the cluster, and ten more for its head's Service (utils/validation.go)."""
    templates: Mapping[str, Template] = {HEAD: (KIND, HEAD_POD), WORKER: (KIND, group_at(0))}
    helpers: tuple[Template, ...] = ((KIND, SUBMITTER),)
    images: tuple[str, ...] = ("/spec/rayClusterSpec/autoscalerOptions/image",)
    scheduling_labels: Mapping[str, str] = {GANG_LABEL: "gang", VOLCANO_QUEUE_LABEL: "queue", PRIORITY_LABEL: "priority"}
    rules: tuple[Rule, ...] = RULES

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if not needs.talk:
            return Refusal("the operator starts one driver on a Ray cluster, and a command there runs once", BROUGHT_BACK_ALONE)
        if needs.rendezvous is not Rendezvous.RAY_HEAD:
            instead = "choose a target that starts the run's own command in its pods"
            return self.lacks("the operator only starts Ray in the pods", needs, instead)
        if needs.elastic:
            return Refusal("Ray Train places a fixed number of ranks, whatever its autoscaler does", "remove topology.elastic")
        holds = cluster_of(needs).head_holds_ranks
        share = Share(Cpu(4000), Bytes(16 * GIB), "Ray's control plane and the driver: the head holds no ranks")
        head = Role(HEAD, 1, "{name}-*-head-svc", "ray-head", None if holds else share, node_by="topology.head_is_node")
        workers = Role(name=WORKER, pods=needs.nodes - holds, host="{name}-*-worker-*", container="ray-worker")
        return Binding(
            roles=(
                head,
                *((workers,) if workers.pods else ()),
                *further_roles(needs, "{name}-*-{role}-worker-*"),
            ),
            rank_zero_host="{name}-*-head-svc",
            rendezvous_port=RAY_PORTS["gcs-server"],
            fixed_port=True,
            injects=_INJECTED,
            replaces_command=True,
            of_rendezvous=RayPods(
                {HEAD: "Ray's autoscaler, beside the head, adds and removes workers"} if needs.autoscaled else {}
            ),
            # drivers are counted; a failed pod of the cluster is replaced, and nothing gives up
            recovery=Recovery(counts_init_failures=False, takes_others="a RayJob starts again on a new cluster"),
            gang=Gang.LABEL,
            # no exit codes: a driver that fails for good is tried again; no save on SIGTERM: process 1 of a pod is Ray's
            guarantees=frozenset(Guarantee) - {Guarantee.EXIT_CODES, Guarantee.SIGTERM_SAVE},
            generated_names=("{name}-abcde-head-svc",),
        )

    def templates_of(self, binding: Binding) -> Mapping[str, Template]:
        head, *groups = binding.roles
        return {head.name: (KIND, HEAD_POD), **{role.name: (KIND, group_at(place)) for place, role in enumerate(groups)}}

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [_job(resolution)]

    kinds: tuple[ObjectKind, ...] = (
        run_kind(
            KIND,
            reasons={
                "/spec/shutdownAfterJobFinishes": "the cluster goes with the run; otherwise it would keep its GPUs",
                "/spec/submissionMode": "a Job hands the entrypoint to the head and follows its log",
                "/spec/submitterConfig": "a lost submitter finds its job again, so another try costs nothing (kuberay #2154)",
                "/spec/rayClusterSpec": "the cluster, one for each attempt",
                "/spec/runtimeEnvYAML": "what Ray brings to the pods before the driver starts",
                "/spec/rayClusterSpec/enableInTreeAutoscaling": "whether workers come and go: ranks of the trainer are fixed",
                "/spec/rayClusterSpec/autoscalerOptions": "the operator's container beside the head, in its own size",
                "/spec/rayClusterSpec/headGroupSpec": "Ray's control plane, and the driver",
                "/spec/rayClusterSpec/headGroupSpec/rayStartParams/num-cpus": "nothing but the driver runs on the head",
                "/spec/rayClusterSpec/headGroupSpec/rayStartParams": "what Ray is started with",
                # resource_and_label_spec.py, accelerators/nvidia_gpu.py of Ray 2.60.0: without a number it counts what NVML sees
                "/spec/rayClusterSpec/headGroupSpec/rayStartParams/num-gpus": "Ray would count what the head happens to see",
                "/spec/rayClusterSpec/headGroupSpec/rayStartParams/dashboard-host": "operator and submitter ask how the job is",
                GROUPS: "the nodes of the run, and a group for each further role",
                **template_reasons(HEAD_POD),
                HEAD_POD: "the pod of Ray's head; the operator adds the command, shared memory and probes",
                **{pointer: why for place in range(MOST_GROUPS) for pointer, why in group_reasons(place).items()},
                **template_reasons(SUBMITTER),
                SUBMITTER: "the pod that hands in the job; the operator's own would be refused by pod security `restricted`",
            },
            owned=(
                Owned(r"/spec/suspend", "the start of the run", "remove it: a queue controller suspends and resumes on its own"),
                Owned(
                    r"/spec/(shutdownAfterJobFinishes|ttlSecondsAfterFinished|deletionStrategy.*)",
                    "the life of the cluster",
                    "remove it: a finished run must not keep its GPUs",
                ),
                Owned(
                    r"/spec/(entrypoint.*|jobId|submissionMode|runtimeEnvYAML)", "the work of the run", "change workload or env"
                ),
                Owned(r"/spec/(backoffLimit|submitterConfig.*)", "the retry budget", "change restarts"),
                owned_manager("/spec(/rayClusterSpec)?"),
                Owned(r"/spec/clusterSelector.*", "the cluster of the run", "remove it: every attempt has a cluster of its own"),
                Owned(
                    r"/spec/rayClusterSpec/(rayVersion|enableInTreeAutoscaling|autoscalerOptions.*|suspend)",
                    "the cluster of the run",
                    "change topology",
                ),
                Owned(
                    r"/spec/rayClusterSpec/headGroupSpec/(rayStartParams|resources).*",
                    "what the head offers",
                    "use topology.start_params.head; CPUs and memory are roles.head.resources, and GPUs topology.head_is_node",
                ),
                Owned(
                    r"/spec/rayClusterSpec/headGroupSpec/(headService|enableIngress|ingressOptions|serviceType)(/.*)?",
                    "who reaches the head",
                    "remove it: anyone who reaches its ports can run code there; add a Service of your own next to the run",
                ),
                Owned(
                    rf"{GROUPS}/[0-9]+/"
                    r"(groupName|replicas|minReplicas|maxReplicas|numOfHosts|suspend|rayStartParams.*|resources.*|scaleStrategy.*)",
                    "the number of pods and what they offer",
                    "change topology.nodes (topology.head_is_node for a head alone), topology.start_params, roles or resources",
                ),
                Owned(GROUPS, "the nodes of the run", "write it under overrides.pod, by role"),
                Owned(f"{SUBMITTER}.*", "the pod that hands in the job", "change image or image_pull_secrets"),
            ),
            free=(
                "/spec/activeDeadlineSeconds",
                "/spec/preRunningDeadlineSeconds",
                "/spec/metadata",
                *(
                    f"/spec/rayClusterSpec/{field}"
                    for field in (
                        "authOptions", "gcsFaultToleranceOptions", "headGroupSpec/labels", "headServiceAnnotations",
                        "historyServerOptions", "networkPolicy", "tlsOptions", "upgradeStrategy",
                    )
                ),
                *(f"{GROUPS}/{place}/{field}" for place in range(MOST_GROUPS) for field in ("labels", "priority")),
            ),
        ),
    )


TARGET: Target = RayJob()


_INJECTED = {
    "RAY_CLUSTER_NAME": "the name of the cluster",
    "RAY_CLUSTER_NAMESPACE": "its namespace",
    "RAY_CLOUD_INSTANCE_ID": "the pod's name",
    "RAY_NODE_TYPE_NAME": "head or worker group",
    "KUBERAY_GEN_RAY_START_CMD": "the command that the operator starts",
    "RAY_PORT": "6379",
    "RAY_ADDRESS": "the head",
    "FQ_RAY_IP": "the head's Service",
    "RAY_IP": "the head's Service",
    "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
    "RAY_USAGE_STATS_EXTRA_TAGS": "releases of the operator",
    "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
    "RAY_enable_autoscaler_v2": "which autoscaler Ray has: the operator decides, and refuses the variable where there is none",
    "RAY_REDIS_ADDRESS": "nothing: an attempt has a cluster of its own, which needs no memory of another",
    "REDIS_USERNAME": "nothing: see RAY_REDIS_ADDRESS",
    "REDIS_PASSWORD": "nothing: see RAY_REDIS_ADDRESS",
}
"""Variables that the operator sets in the pods, or does not take (ray-operator, common/pod.go and utils/validation.go)."""


def _job(resolution: Resolution) -> Tree:
    run, plan = resolution.run, resolution.plan
    labels = top_labels(resolution) | _scheduling_labels(resolution)
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": plan.name, "namespace": namespace_of(plan), "labels": labels, **object_annotations(run)},
        "spec": {
            "entrypoint": _entrypoint(resolution),
            "shutdownAfterJobFinishes": True,
            "backoffLimit": Why(run.restarts, "run:/restarts", "tries after the first one, each on a new cluster"),
            **managed_by(resolution),
            **deadline(run),
            "submissionMode": "K8sJobMode",
            "submitterConfig": {"backoffLimit": 3},
            "submitterPodTemplate": submitter(resolution),
            **_runtime_env(resolution),
            "rayClusterSpec": ray_cluster(resolution),
        },
    }


def _scheduling_labels(resolution: Resolution) -> Tree:
    gang, run = resolution.plan.gang, resolution.run
    if gang is None:
        return {}
    labels: Tree = {GANG_LABEL: Why("true", "cluster:/scheduling/gang", "the operator makes a PodGroup of the Ray cluster")}
    if gang.scheduler == "volcano" and gang.queue:
        labels[VOLCANO_QUEUE_LABEL] = Why(gang.queue, "run:/queue", "the Volcano queue")
    if gang.scheduler == "volcano" and run.priority:
        labels[PRIORITY_LABEL] = Why(run.priority, "run:/priority", "of the PodGroup that the operator makes")
    return labels


def _entrypoint(resolution: Resolution) -> Why:
    """One string, which a shell takes apart again."""
    command = shlex.join(resolution.processes[HEAD].command)
    if isinstance(resolution.run.workload, CommandWorkload):
        return Why(command, "run:/workload/command", "as asked, quoted for the shell that reads it")
    return Why(command, "trainwright", "the driver: Ray Train places the ranks and starts them")


def _runtime_env(resolution: Resolution) -> Tree:
    stated = cluster_of(resolution.needs).runtime_env
    if not stated:
        return {}
    import yaml  # few runs have one

    text = yaml.safe_dump(stated, sort_keys=False, allow_unicode=True, width=1_000)
    return {"runtimeEnvYAML": Why(text, "run:/topology/runtime_env", "as asked")}
