"""Volcano Job (batch.volcano.sh/v1alpha1): tasks of pods that Volcano starts together, and starts again together."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, Gang, Guarantee, Needs, Refusal, Rendezvous, Role, Success
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.life import time_to_live
from trainwright.manifest.pod import pod_template, template_reasons
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.scheduling import top_metadata
from trainwright.plan import Resolution
from trainwright.target.base import BROUGHT_BACK_ALONE, BaseTarget, KnownOperator, Target, Template, run_kind
from trainwright.target.tensorflow import PORT, tasks
from trainwright_trainer.contract import Disposition
from trainwright_trainer.contract.exit_codes import EXIT_CODES
from trainwright_trainer.contract.layout import RENDEZVOUS_PORT

VOLCANO_JOB = GroupKind("batch.volcano.sh", "Job")
TASK = "node"
TEMPLATE = "/spec/tasks/0/template"
TASKS = ("worker", "ps", "chief")
"""Of TensorFlow, in the order of the object: the plugin ``tensorflow`` knows them by these names."""

_RETRIES = "the webhook's default, so that Argo CD sees no difference; no policy restarts one pod"

INDEX_LABEL = "metadata.labels['volcano.sh/task-index']"
"""Set on every pod, besides the annotation of that name (pkg/controllers/job/job_controller_util.go, createJobPod)."""


class VolcanoJob(BaseTarget):
    """Pod ``<name>-node-<i>`` is reachable as ``<name>-node-<i>.<name>``, behind the headless Service of the plugin ``svc``."""

    name = "volcano-job"
    title = "Volcano Job"
    kind = VOLCANO_JOB
    operator: KnownOperator | None = None
    """Its controller comes with the scheduler, whose release the profile states under ``scheduling``."""
    kueue: str | None = None
    refused: Mapping[str, str] = {"deadline": "only its pods have one, and Volcano would start them again"}
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, Template] = {
        TASK: (VOLCANO_JOB, TEMPLATE),
        **{task: (VOLCANO_JOB, f"/spec/tasks/{place}/template") for place, task in enumerate(TASKS)},
    }
    reserved_labels: tuple[str, ...] = (
        "volcano.sh/job-name", "volcano.sh/job-namespace", "volcano.sh/task-index", "volcano.sh/task-spec",
    )  # fmt: skip

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if not needs.talk:
            return Refusal("its policies start all pods again when one fails, those that are done too", BROUGHT_BACK_ALONE)
        if needs.elastic:
            return Refusal("ranks are numbered by the pods' indexes, so their number is fixed", "remove topology.elastic")
        servers = needs.rendezvous is Rendezvous.TF_CONFIG and needs.parameter_servers
        if needs.rendezvous is not Rendezvous.STATIC and not servers:
            what = "a name and an index, or TF_CONFIG beside parameter servers"
            reason = f"each pod only gets {what}, which is not enough for the rendezvous {needs.rendezvous.value}"
            return Refusal(reason, "choose a target whose operator makes it")
        if needs.success is not Success.ALL_RANKS and not servers:
            reason = f"this Job is complete when every pod is, not when {needs.success.value}"
            return Refusal(reason, "choose a target whose operator knows that rule")
        if cluster.scheduling.gang != "volcano":
            reason = f"cluster {cluster.cluster} has no Volcano, which makes the pods and their group"
            return Refusal(reason, "write `scheduling: {gang: volcano, version: …}` in the profile if it is there")
        return _beside_servers(needs) if servers else _nodes(needs)

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [_job(resolution)]

    kinds: tuple[ObjectKind, ...] = (
        run_kind(
            VOLCANO_JOB,
            reasons={
                "/spec/plugins": "what the controller adds to the pods of the run",
                "/spec/plugins/env": "tells each pod its index",
                "/spec/plugins/svc": "gives every pod a DNS name, before it is ready too: ranks must find each other first. Its "
                "NetworkPolicy would keep Prometheus out; the run has one where the cluster asks for it",
                "/spec/policies": "what to do when a pod fails, from the trainer's table of exit codes; the first match wins",
                "/spec/plugins/tensorflow": "tells each pod all tasks, and which of them it is (TF_CONFIG)",
                "/spec/tasks": "one task for all nodes, so that an index is a node; beside parameter servers one for each role",
                **{f"/spec/tasks/{place}/maxRetry": _RETRIES for place in range(len(TASKS))},
                **{
                    pointer: why
                    for place in range(len(TASKS))
                    for pointer, why in template_reasons(f"/spec/tasks/{place}/template").items()
                },
            },
            owned=(
                Owned(
                    r"/spec/ttlSecondsAfterFinished",
                    "the life of the run",
                    "remove it: Argo CD would make a deleted Job again, and train again",
                ),
                Owned(r"/spec/(minAvailable|minSuccess)", "how pods start together, and when the run is done", "change topology"),
                Owned(r"/spec/(schedulerName|queue|priorityClassName)", "how the run is scheduled", "change queue or priority"),
                Owned(r"/spec/maxRetry", "the retry budget", "change restarts"),
                Owned(r"/spec/volumes.*", "the volumes of the pods", "change mounts"),
                Owned(r"/spec/plugins.*", "the address of the ranks", "remove it: peers find each other by names and indexes"),
                Owned(
                    r"/spec/policies.*",
                    "the failure rules, made from the trainer's exit codes",
                    "remove it: all ranks come back together, or none does",
                ),
                Owned(r"/spec/tasks", "the nodes of the run", "write it under overrides.pod, by role"),
                Owned(r"/spec/tasks/[0-9]+/(name|replicas|minAvailable)", "the number of pods", "change topology"),
                Owned(r"/spec/tasks/[0-9]+/(policies|maxRetry|dependsOn).*", "how pods come back", "change restarts"),
                Owned(rf"/spec/tasks/(?![0-{len(TASKS) - 1}](/|$)).*", "the nodes of the run", "change topology"),
            ),
            free=(
                "/spec/networkTopology", "/spec/runningEstimate",
                *(f"/spec/tasks/{place}/partitionPolicy" for place in range(len(TASKS))),
                *(f"/spec/tasks/{place}/topologyPolicy" for place in range(len(TASKS))),
            ),
        ),
    )

    health = """\
-- Volcano has one word for the phase of a Job, and a message where there is something to say.
local meaning = {
  Completed = "Healthy",
  Failed = "Degraded",
  Terminated = "Degraded",
  Aborted = "Degraded",
}
local state = obj.status ~= nil and obj.status.state or {}
local phase = state.phase or ""
return { status = meaning[phase] or "Progressing", message = phase .. ": " .. (state.message or "") }
"""

    guide = """\
- **Emits** a ConfigMap and a Volcano Job with one task, `node`. Volcano's controller creates the pods and, through its plugin
  `svc`, the Service `<name>`; pod i is `<name>-node-<i>.<name>`, even before it is ready. The plugin `env` tells each pod its
  index. For [parameter servers](topologies.md#parameterserver) the tasks are `worker`, `ps` and perhaps `chief`, and the plugin
  `tensorflow` tells each pod `TF_CONFIG`.
- **Needs** Volcano: the profile has `scheduling: {gang: volcano}`. There is no operator besides it. Kueue has no integration for
  Volcano Jobs: on a cluster with Kueue a run with a `queue` is refused ([TW436](findings/TW436.md)). Without Kueue the `queue`
  is one of Volcano.
- **Gang.** The controller makes the PodGroup of every Job, with `minAvailable` from the plan; no flag is involved. With
  `gang: false` Volcano still places the pods, but may start them one by one.
- **Failures.** The policies follow from the exit codes: a permanent code terminates the Job. Any other failure and the loss of a
  pod restart all pods together. Volcano ends the Job when it has counted `maxRetry` restarts, so `maxRetry` is `restarts` + 1.
  It cannot exempt a failure: an evicted pod and a lost peer count too. A restart deletes the failed pods with their logs.
- **Special.** The Job is complete when every pod is (`minSuccess`), and beside parameter servers, which never end, when the
  chief or all workers are (`CompleteJob`). Volcano's webhook writes defaults into the Job; they are
  all written out here, so that Argo CD sees no difference.
"""


TARGET: Target = VolcanoJob()

_INDEX = {
    "VC_TASK_INDEX": "the pod's index, by the plugin env",
    "VK_TASK_INDEX": "the pod's index, by the plugin env",
}
_TF_CONFIG = {"TF_CONFIG": "addresses of all tasks, and the pod's own place among them, by the plugin tensorflow"}


def _hosts(task: str) -> dict[str, str]:
    """What the plugins append after the run's own variables (pkg/controllers/job/plugins: env, svc and
    distributed-framework/tensorflow)."""
    return {
        f"VC_{task.upper()}_HOSTS": f"the names of all pods of task {task}, by the plugin svc",
        f"VC_{task.upper()}_NUM": f"the number of pods of task {task}, by the plugin svc",
    }


def _nodes(needs: Needs) -> Binding:
    return Binding(
        roles=(Role(name=TASK, pods=needs.nodes, host="{name}-node-{index}.{name}", container="trainer"),),
        rank_zero_host="{name}-node-0.{name}",
        rendezvous_port=RENDEZVOUS_PORT,
        node_index_env="VC_TASK_INDEX",
        index_field=INDEX_LABEL,
        injects={**_INDEX, **_hosts(TASK)},
        renders={"PET_NODE_RANK": INDEX_LABEL},
        peer_list=("VC_NODE_HOSTS", "{host},"),
        gang=Gang.OBJECTS,
        guarantees=frozenset(Guarantee),
        generated_names=(f"{{name}}-node-{needs.nodes - 1}",),
    )


def _beside_servers(needs: Needs) -> Binding:
    found = tasks(needs, ".{name}")
    roles = tuple(found[task] for task in TASKS if task in found)
    return Binding(
        roles=roles,
        rank_zero_host="{name}-chief-0.{name}" if needs.chief else "{name}-worker-0.{name}",
        rendezvous_port=PORT,
        node_index_env="VC_TASK_INDEX",
        index_field=INDEX_LABEL,
        port_name="tfjob-port",
        injects={**_INDEX, **{name: what for role in roles for name, what in _hosts(role.name).items()}, **_TF_CONFIG},
        peer_list=("TF_CONFIG", f'"{{host}}:{PORT}",'),
        gang=Gang.OBJECTS,
        guarantees=frozenset(Guarantee),
        generated_names=tuple(f"{{name}}-{role.name}-{role.pods - 1}" for role in roles),
    )


def _job(resolution: Resolution) -> Tree:
    run = resolution.run
    servers = resolution.needs.parameter_servers
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": top_metadata(resolution),
        "spec": {
            **_scheduling(resolution),
            **({} if servers else {"minSuccess": Why(resolution.needs.nodes, "run:/topology/nodes", "every pod must be done")}),
            "maxRetry": Why(
                run.restarts + 1,
                "run:/restarts",
                "restarts + 1: the Job has failed when it was to start again so often (pkg/controllers/job/state/restarting.go)",
            ),
            "plugins": {
                "env": [],
                "svc": ["--publish-not-ready-addresses=true", "--disable-network-policy=true"],
                **({"tensorflow": []} if servers else {}),
            },
            **time_to_live(run),
            "policies": _policies(resolution),
            "tasks": [_task(resolution, role) for role in resolution.binding.roles],
        },
    }


def _task(resolution: Resolution, role: Role) -> Tree:
    """The chief's task ends the run beside parameter servers, which never end; without a chief that of the workers does."""
    reason = "one pod a node" if role.counted_in == "run:/topology/nodes" else "pods of this role"
    ends = resolution.needs.parameter_servers and role.name == ("chief" if resolution.needs.chief else "worker")
    done = Why({"action": "CompleteJob", "event": "TaskCompleted"}, "trainwright", "the run is done when this task is")
    return {
        "name": role.name,
        "replicas": Why(role.pods, role.counted_in, reason),
        "minAvailable": Why(role.pods, role.counted_in, "all nodes at once: ranks wait for each other"),
        "maxRetry": 3,
        **({"policies": [done]} if ends else {}),
        "template": pod_template(resolution, role, {"restartPolicy": "Never"}),
    }


def _scheduling(resolution: Resolution) -> Tree:
    """The controller makes the PodGroup from this. A part of the tasks' pods is enough where the run asks for no gang
    (pkg/scheduler/api/job_info.go, CheckTaskMinAvailable)."""
    run, gang, scheduling = resolution.run, resolution.plan.gang, resolution.cluster.scheduling
    fields: Tree = {
        "schedulerName": Why(scheduling.name, "cluster:/scheduling", "Volcano, which alone reads the group of the pods"),
        "queue": Why(gang.queue if gang and gang.queue else "default", "run:/queue", "the Volcano queue"),
    }
    if run.priority:
        fields["priorityClassName"] = Why(run.priority, "run:/priority", "as asked")
    if gang:
        fields["minAvailable"] = Why(gang.minimum, "run:/topology", gang.minimum_reason)
    else:
        fields["minAvailable"] = Why(1, "run:/gang", "no gang is asked for: pods may start one by one")
    return fields


def _policies(resolution: Resolution) -> list[Tree | Why]:
    """A code each, then everything else. What starts a Job again kills all of its pods first, and counts; a request of a pod that
    was killed then is older than the Job and changes nothing (pkg/controllers/job/job_controller_util.go, applyPolicies)."""
    again = Why(
        {"action": "RestartJob", "events": ["PodFailed", "PodEvicted"]},
        "trainwright",
        "all pods go, and all come back together: ranks cannot do without each other",
    )
    if not all(process.supervised for process in resolution.processes.values()):
        return [again]
    permanent = [row for row in EXIT_CODES.values() if row.disposition is Disposition.PERMANENT]
    return [
        *(
            Why(
                {"action": "TerminateJob", "exitCode": int(row.code)},
                "trainwright",
                f"{row.reason}: the same pod would fail again, so the run ends and keeps its logs",
            )
            for row in sorted(permanent, key=lambda row: int(row.code))
        ),
        again,
    ]
