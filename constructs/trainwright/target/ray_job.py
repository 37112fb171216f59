"""RayJob of KubeRay (ray.io/v1): a Ray cluster that lives as long as the run, and a driver on its head."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trainwright.cluster import Cluster
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.handshake import Binding, Gang, Guarantee, Needs, Refusal, Rendezvous, Role, Share
from trainwright.manifest.containers import pull_policy
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.labels import object_annotations, pod_labels
from trainwright.manifest.life import deadline
from trainwright.manifest.pod import pod_template, template_reasons
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.scheduling import managed_by, pool_tolerations, top_labels
from trainwright.manifest.security import container_security, pod_security
from trainwright.plan import Resolution
from trainwright.run import CommandWorkload, ScriptWorkload
from trainwright.target.base import (
    BROUGHT_BACK_ALONE,
    BaseTarget,
    GangFlag,
    KnownOperator,
    Releases,
    Rule,
    Target,
    Template,
    owned_manager,
    run_kind,
)
from trainwright.units import GIB, Bytes, Cpu

if TYPE_CHECKING:
    from trainwright.findings.context import Context

KIND = GroupKind("ray.io", "RayJob")
KUBERAY = KnownOperator(
    "kuberay",
    Releases((1, 3), (1, 7)),
    GangFlag(schedulers={"volcano": "volcano", "scheduler-plugins": "scheduler-plugins-scheduler"}),
)
"""From 1.3 on the entrypoint keeps its quotes (kuberay #2949), and a submitter that is lost finds its job again (#2154). The
schedulers are constants of ray-operator/controllers/ray/batchscheduler."""
GANG_LABEL, QUEUE_LABEL, PRIORITY_LABEL = "ray.io/gang-scheduling-enabled", "volcano.sh/queue-name", "ray.io/priority-class-name"
"""What the operator reads on the RayJob where it makes a PodGroup (ray-operator/controllers/ray/batchscheduler/volcano)."""
HEAD, WORKER = "head", "worker"
HEAD_POD = "/spec/rayClusterSpec/headGroupSpec/template"
WORKER_POD = "/spec/rayClusterSpec/workerGroupSpecs/0/template"
SUBMITTER = "/spec/submitterPodTemplate"
GCS_PORT = 6379
"""Of the head's global control store (ray start --port)."""
LONGEST_NAME = 47
"""Of a RayJob: the operator adds six characters for the cluster, and ten more for its head's Service (utils/validation.go)."""

_RAY_IMAGE = re.compile(r"(?:.*/)?ray(?:-[a-z]+)?:(?P<version>[0-9]+\.[0-9]+\.[0-9]+)(?![0-9.])[^@]*(?:@.*)?")
"""An image of Ray's own, whose tag starts with Ray's release: ``rayproject/ray:2.52.0-py312-gpu``."""


_PLAIN = re.compile(r"[\w@%+=:,./ -]*", re.ASCII)
"""What both shells on the way read alike: the characters that need no quotes, and the blank."""


def work_starts(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What Ray's driver can be: our trainer, or a program that calls Ray itself."""
    work = context.run.workload
    if isinstance(work, ScriptWorkload):
        message = "the supervisor of a script starts its ranks, and in a Ray cluster Ray starts them"
        fix = "write kind: command, and have the program start its ranks through Ray Train; or use another topology"
        yield found("TW424", context.locate.run("/workload/kind"), message, fix)
    if isinstance(work, CommandWorkload) and work.args:
        message = "Ray starts its own program in every pod, and the driver is one command: args have no entrypoint to go to"
        yield found("TW424", context.locate.run("/workload/args"), message, "write the whole command under command")
    for number, word in enumerate((work.command or ()) if isinstance(work, CommandWorkload) else ()):
        if not _PLAIN.fullmatch(word):
            message = f"`{word[:80]}` holds a character that a shell reads, and two shells read it on its way to the head"
            fix = "put the command into a file of the run (files), and start that: [bash, /app/start.sh]"
            yield found("TW424", context.locate.run(f"/workload/command/{number}"), message, fix)


def version_is_known(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator asks which release of Ray it starts, and an image may say so itself."""
    head = resolution.binding.roles[0]
    stated, tagged = resolution.needs.version, ray_version(resolution.image(head)[0], None)
    if stated is None and tagged is None:
        fix = "add topology.version, the release of Ray in the image: `python -c 'import ray; print(ray.__version__)'`"
        message = "neither the run nor the image's tag says which release of Ray the image contains"
        yield found("TW426", context.locate.run("/image"), message, fix)
    elif stated is not None and tagged is not None and stated != tagged.value:
        message = f"topology.version is {stated}, and the image's tag says {tagged.value}"
        yield found("TW426", context.locate.run("/topology/version"), message, "remove version, or use the image of that release")


def shared_memory(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator mounts its own, of the size of the pod's memory (ray-operator/controllers/ray/common/pod.go)."""
    if resolution.binding.own_shared_memory and context.run.resources.shared_memory is not None:
        message = f"{RayJob.title} does not read resources.shared_memory: its operator mounts shared memory itself"
        yield found("TW207", context.locate.run("/resources/shared_memory"), message, "remove it")


class RayJob(BaseTarget):
    """Each attempt has a cluster of its own, ``<name>-<5 characters>``; workers find the head by its Service."""

    name = "ray-job"
    title = "RayJob"
    kind = KIND
    operator: KnownOperator | None = KUBERAY
    kueue: str | None = "ray.io/rayjob"
    refused: Mapping[str, str] = {
        "ttl": "it would delete the cluster, which goes with the run anyway, and leave the RayJob",
        "probes": "the pods run Ray, which KubeRay probes itself; the command is a job on the head",
        "pre_stop": "the pods run Ray, and the command is a job on the head",
        "ports": "KubeRay would add them to the Service of the head, and whoever reaches the head can run code there",
    }
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, Template] = {HEAD: (KIND, HEAD_POD), WORKER: (KIND, WORKER_POD)}
    helpers: tuple[Template, ...] = ((KIND, SUBMITTER),)
    scheduling_labels: Mapping[str, str] = {GANG_LABEL: "gang", QUEUE_LABEL: "queue", PRIORITY_LABEL: "priority"}
    rules: tuple[Rule, ...] = (work_starts, version_is_known, shared_memory)

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if not needs.talk:
            return Refusal("the operator starts one driver on a Ray cluster, and a command there runs once", BROUGHT_BACK_ALONE)
        if needs.rendezvous is not Rendezvous.RAY_HEAD:
            reason = f"the operator only starts Ray in the pods, which is not enough for the rendezvous {needs.rendezvous.value}"
            return Refusal(reason, "choose a target that starts the run's own command in its pods")
        if needs.elastic:
            return Refusal("the number of workers is fixed: Ray's autoscaler is off", "remove topology.elastic")
        share = Share(Cpu(4000), Bytes(16 * GIB), "Ray's control plane and the driver: the head holds no ranks")
        return Binding(
            roles=(
                Role(name=HEAD, pods=1, host="{name}-*-head-svc", container="ray-head", share=share),
                Role(name=WORKER, pods=needs.nodes, host="{name}-*-worker-*", container="ray-worker"),
            ),
            rank_zero_host="{name}-*-head-svc",
            rendezvous_port=GCS_PORT,
            fixed_port=True,
            node_index_env=None,
            injects=_INJECTED,
            replaces_command=True,
            own_shared_memory=True,
            counts_init_failures=False,  # drivers are counted; a failed pod of the cluster is replaced, and nothing gives up
            gang=Gang.LABEL,
            # no exit codes: a driver that fails for good is tried again; no save on SIGTERM: process 1 of a pod is Ray's
            guarantees=frozenset({Guarantee.RESTART_ALL, Guarantee.EXACT_RESUME, Guarantee.RESHARD}),
            generated_names=("{name}-abcde-head-svc",),
            longest_name=LONGEST_NAME,
        )

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
                "/spec/rayClusterSpec/enableInTreeAutoscaling": "the ranks are fixed, and Argo CD would undo an autoscaler",
                "/spec/rayClusterSpec/headGroupSpec": "Ray's control plane, and the driver",
                "/spec/rayClusterSpec/headGroupSpec/rayStartParams/num-cpus": "nothing but the driver runs on the head",
                # resource_and_label_spec.py, accelerators/nvidia_gpu.py of Ray 2.60.0: without a number it counts what NVML sees
                "/spec/rayClusterSpec/headGroupSpec/rayStartParams/num-gpus": "Ray would count what the head happens to see",
                "/spec/rayClusterSpec/headGroupSpec/rayStartParams/dashboard-host": "operator and submitter ask how the job is",
                "/spec/rayClusterSpec/workerGroupSpecs": "the nodes of the run",
                "/spec/rayClusterSpec/workerGroupSpecs/0/numOfHosts": "one pod a replica",
                "/spec/rayClusterSpec/workerGroupSpecs/0/rayStartParams": "the operator reads CPUs and memory from the limits",
                **template_reasons(HEAD_POD),
                HEAD_POD: "the pod of Ray's head; the operator adds the command, shared memory and probes",
                **template_reasons(WORKER_POD),
                WORKER_POD: "the pod of every node; the operator adds the command, shared memory and probes",
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
                    "remove it: no rank runs there; its own CPUs and memory are in overrides.pod.head",
                ),
                Owned(
                    r"/spec/rayClusterSpec/headGroupSpec/(headService|enableIngress|ingressOptions|serviceType)(/.*)?",
                    "who reaches the head",
                    "remove it: anyone who reaches its ports can run code there; add a Service of your own next to the run",
                ),
                Owned(
                    r"/spec/rayClusterSpec/workerGroupSpecs/0/"
                    r"(groupName|replicas|minReplicas|maxReplicas|numOfHosts|suspend|rayStartParams.*|resources.*|scaleStrategy.*)",
                    "the number of pods and what they offer",
                    "change topology.nodes or resources",
                ),
                Owned(r"/spec/rayClusterSpec/workerGroupSpecs/[1-9].*", "the nodes of the run", "change topology.nodes"),
                Owned(r"/spec/rayClusterSpec/workerGroupSpecs", "the nodes of the run", "write it under overrides.pod.worker"),
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
                        "historyServerOptions", "networkPolicy", "tlsOptions", "upgradeStrategy", "workerGroupSpecs/0/labels",
                        "workerGroupSpecs/0/priority",
                    )
                ),
            ),
        ),
    )

    health = """\
-- KubeRay has no conditions on a RayJob: one word for the object, and one for the job in the cluster.
local meaning = {
  Complete = "Healthy",
  Failed = "Degraded",
  ValidationFailed = "Degraded",
  Suspending = "Suspended",
  Suspended = "Suspended",
}
local status = obj.status or {}
local word, job = status.jobDeploymentStatus or "", status.jobStatus or ""
local health = meaning[word] or "Progressing"
if word == "Complete" and (job == "FAILED" or job == "STOPPED") then
  health = "Degraded"
end
local message = status.message or status.reason or job
if word ~= "" then
  message = word .. ": " .. message
end
return { status = health, message = message }
"""

    guide = """\
- **Emits** a RayJob, with a Ray cluster that lives as long as the run: a head that holds no ranks, and workers. If the
  workload is our trainer, it also emits a ConfigMap.
- **Needs** KubeRay 1.3 or newer, and for gangs its flag `--batch-scheduler`. `rayVersion` comes from the image's tag or from
  `topology.version` ([TW426](findings/TW426.md)).
- **Failures.** A driver that fails is retried on a new cluster, up to `restarts` times, whatever its code: the operator reads
  none. An evicted pod saves nothing, because its process 1 is Ray's and tells nobody; the last commit remains. SIGTERM to the
  driver of our trainer saves all ranks at one step, within the 3 seconds that `ray job stop` allows, or the time that
  `RAY_JOB_STOP_WAIT_TIME_S` sets on the head. The operator asks for such a stop when the RayJob is deleted, and removes the
  cluster without waiting for it.
- **Special.** A shell reads the entrypoint, so it is quoted; what cannot be quoted is an error ([TW424](findings/TW424.md)).
  The name of the run has at most 47 characters, including the hash. The number of workers is fixed, and the cluster is
  removed with the run; otherwise it would keep its GPUs.
"""


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
    "RAY_enable_autoscaler_v2": "nothing: the autoscaler is off, and the operator refuses the cluster",
    "RAY_REDIS_ADDRESS": "nothing: an attempt has a cluster of its own, which needs no memory of another",
    "REDIS_USERNAME": "nothing: see RAY_REDIS_ADDRESS",
    "REDIS_PASSWORD": "nothing: see RAY_REDIS_ADDRESS",
}
"""Variables that the operator sets in the pods, or does not take (ray-operator, common/pod.go and utils/validation.go)."""


def ray_version(image: str, stated: str | None) -> Why | None:
    """Ray's release, as the run states it or as the tag of an image of Ray's own says; None where neither does."""
    if stated:
        return Why(stated, "run:/topology/version", "as stated: Ray in the image")
    tag = _RAY_IMAGE.fullmatch(image)
    return Why(tag["version"], "run:/image", "the tag of Ray's image") if tag else None


def _job(resolution: Resolution) -> Tree:
    run, plan = resolution.run, resolution.plan
    labels = top_labels(resolution) | _scheduling_labels(resolution)
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": labels, **object_annotations(run)},
        "spec": {
            "entrypoint": _entrypoint(resolution),
            "shutdownAfterJobFinishes": True,
            "backoffLimit": Why(run.restarts, "run:/restarts", "tries after the first one, each on a new cluster"),
            **managed_by(resolution),
            **deadline(run),
            "submissionMode": "K8sJobMode",
            "submitterConfig": {"backoffLimit": 3},
            "submitterPodTemplate": _submitter(resolution),
            "rayClusterSpec": _cluster(resolution),
        },
    }


def _scheduling_labels(resolution: Resolution) -> Tree:
    gang, run = resolution.plan.gang, resolution.run
    if gang is None:
        return {}
    labels: Tree = {GANG_LABEL: Why("true", "cluster:/scheduling/gang", "the operator makes a PodGroup of the Ray cluster")}
    if gang.scheduler == "volcano" and gang.queue:
        labels[QUEUE_LABEL] = Why(gang.queue, "run:/queue", "the Volcano queue")
    if gang.scheduler == "volcano" and run.priority:
        labels[PRIORITY_LABEL] = Why(run.priority, "run:/priority", "of the PodGroup that the operator makes")
    return labels


def _entrypoint(resolution: Resolution) -> Why:
    """One string, which a shell takes apart again."""
    command = shlex.join(resolution.processes[HEAD].command)
    if isinstance(resolution.run.workload, CommandWorkload):
        return Why(command, "run:/workload/command", "as asked, quoted for the shell that reads it")
    return Why(command, "trainwright", "the driver: Ray Train places the ranks and starts them")


def _cluster(resolution: Resolution) -> Tree:
    head, worker = resolution.binding.roles
    version = ray_version(resolution.image(head)[0], resolution.needs.version)
    nodes = Why(worker.pods, "run:/topology/nodes", "all nodes, no more and no less: ranks wait for each other")
    return {
        **({"rayVersion": version} if version else {}),
        "enableInTreeAutoscaling": False,
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0", "num-gpus": "0", "dashboard-host": "0.0.0.0"},  # noqa: S104 - inside the pod
            "template": pod_template(resolution, head, {"restartPolicy": "Never"}),
        },
        "workerGroupSpecs": [
            {
                "groupName": WORKER,
                "replicas": nodes,
                "minReplicas": nodes,
                "maxReplicas": nodes,
                "numOfHosts": 1,
                "rayStartParams": _offers(resolution),
                "template": pod_template(resolution, worker, {"restartPolicy": "Never"}),
            }
        ],
    }


def _offers(resolution: Resolution) -> Tree:
    """The operator knows GPUs by the end of their resource's name, so a slice of one would not count (common/pod.go)."""
    gpus = resolution.needs.gpus_per_node
    return {"num-gpus": Why(str(gpus), "run:/topology/gpus_per_node", "whatever the resource is called")} if gpus else {}


def _submitter(resolution: Resolution) -> Tree:
    """Anywhere in the cluster, since it needs no GPU, and beside the workers too: where every pool is tainted it has no other
    place, and the cluster would hold its GPUs and wait for it.
    """
    run, security = resolution.run, resolution.plan.security
    image, stated = resolution.image(resolution.binding.roles[0])
    rights = container_security(security)
    home = Why({"name": "HOME", "value": "/tmp"}, "trainwright", "the root file system is read-only")  # noqa: S108
    secrets = [{"name": name} for name in run.image_pull_secrets]
    amounts = Why({"cpu": "1", "memory": "1Gi"}, "trainwright", "the limits of the operator's own submitter, as requests too")
    return {
        "metadata": {"labels": pod_labels(run, resolution.plan)},
        "spec": {
            "restartPolicy": "Never",
            **pool_tolerations(resolution.pool, resolution.plan.world.pool, "it may have no place but beside the workers"),
            "automountServiceAccountToken": Why(False, "trainwright", "it needs no access to the API server"),
            **({"imagePullSecrets": Why(secrets, "run:/image_pull_secrets", "as asked")} if secrets else {}),
            "enableServiceLinks": False,
            "securityContext": pod_security(security),
            "containers": [
                {
                    "name": Why("ray-job-submitter", "trainwright", "the one container"),
                    "image": Why(image, stated, "Ray's command line, of the same release as the head"),
                    **pull_policy(run),
                    **({"env": [home]} if security.read_only_root else {}),
                    "resources": {"requests": amounts, "limits": amounts},
                    **({"securityContext": rights} if rights else {}),
                    **({"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]} if security.read_only_root else {}),  # noqa: S108
                }
            ],
            **({"volumes": [{"name": "tmp", "emptyDir": {}}]} if security.read_only_root else {}),
        },
    }
