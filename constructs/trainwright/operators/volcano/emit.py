"""Volcano Job (batch.volcano.sh/v1alpha1): tasks of pods that Volcano starts together, and starts again together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, EnvironmentChannel, Gang, Needs, Recovery, Refusal, Rendezvous, Role
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.life import time_to_live
from trainwright.manifest.template.pod import pod_template, template_reasons
from trainwright.manifest.template.scheduling import top_metadata
from trainwright.operators.base import BROUGHT_BACK_ALONE, KnownOperator, Target, Template, further_roles, run_kind
from trainwright.operators.job.child_jobs import MOST_JOBS
from trainwright.plan import Resolution
from trainwright.plan.pods import plan_ports
from trainwright.rendezvous import torch
from trainwright.rendezvous.mpi import LAUNCHER, MPI, WORKER, Mpirun, launcher_and_workers
from trainwright.rendezvous.tensorflow import EVALUATOR, PORT, tasks_of
from trainwright_trainer.contract import Disposition
from trainwright_trainer.contract.exit_codes import EXIT_CODES, IN_PLACE

VOLCANO_JOB = GroupKind("batch.volcano.sh", "Job")
NODE = "node"
TENSORFLOW = (WORKER, "ps", "chief")
"""In the order of the object: the plugin ``tensorflow`` knows tasks by these names."""

_RETRIES = "the webhook's default, so that Argo CD sees no difference; no policy restarts one pod"

INDEX_LABEL = "metadata.labels['volcano.sh/task-index']"
"""Set on every pod, besides the annotation of that name (pkg/controllers/job/job_controller_util.go, createJobPod)."""


def template_at(place: int) -> str:
    """Pointer of the pod template of a task."""
    return f"/spec/tasks/{place}/template"


class VolcanoJob(Target):
    """Pod ``<name>-<task>-<i>`` is reachable as ``<name>-<task>-<i>.<name>``, behind the Service of the plugin ``svc``."""

    name = "volcano-job"
    title = "Volcano Job"
    kind = VOLCANO_JOB
    operator: KnownOperator | None = None
    """Its controller comes with the scheduler, whose release the profile states under ``scheduling``."""
    kueue: str | None = None
    cannot_carry: Mapping[str, str] = {"deadline": "only its pods have one, and Volcano would start them again"}
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, Template] = dict.fromkeys((NODE, LAUNCHER, *TENSORFLOW), (VOLCANO_JOB, template_at(0)))
    reserved_labels: tuple[str, ...] = (
        "volcano.sh/job-name", "volcano.sh/job-namespace", "volcano.sh/task-index", "volcano.sh/task-spec",
    )  # fmt: skip

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if not needs.talk:
            return Refusal("its policies start all pods again when one fails, those that are done too", BROUGHT_BACK_ALONE)
        if needs.elastic:
            # the webhook lets replicas and minAvailable change (pkg/webhooks/admission/jobs/validate/admit_job.go)
            reason = "this release does not change the number of a Volcano Job's pods while it runs; Volcano itself could"
            return Refusal(reason, "remove topology.elastic")
        bind = _BINDINGS.get(needs.rendezvous)
        if bind is None:
            return self.lacks("each pod only gets a name and an index, TF_CONFIG, or ssh keys and a host file", needs)
        if cluster.scheduling.gang != "volcano":
            reason = f"cluster {cluster.cluster} has no Volcano, which makes the pods and their group"
            return Refusal(reason, "write `scheduling: {gang: volcano, version: …}` in the profile if it is there")
        if len({one.must_end for one in needs.further}) > 1:
            reason = "it is done when one task is, or when every pod is, and not when some tasks are"
            return Refusal(reason, "write must_end for all further roles, or for none", tuple(one.name for one in needs.further))
        if first := tuple(one.name for one in needs.further if one.starts == "first"):
            reason = "a task can wait until pods run, and not until they have ended"
            return Refusal(reason, "remove starts, or choose JobSet or TrainJob", first)
        ending = tuple(one.name for one in needs.further if one.must_end)
        if (needs.part(MPI) or tasks_of(needs).parameter_servers) and ending:
            reason = "some of its pods never end, so it is done when one task is, and no other is waited for"
            return Refusal(reason, "remove must_end", ending)
        further = further_roles(needs, "{name}-{role}-{index}.{name}", INDEX_LABEL)
        bound = bind(needs)
        roles = (*bound.roles, *further)
        return bound._replace(
            roles=roles,
            recovery=Recovery(
                returns="all pods start again, about 1 s later, and each time is one of the restarts",
                takes_others="a Volcano Job starts all of its pods again when one has ended",
            ),
            injects={**_INDEX, **{name: what for role in roles for name, what in _hosts(role.name).items()}, **bound.injects},
            generated_names=tuple(f"{{name}}-{role.name}-{role.pods - 1}" for role in roles),
        )

    def templates_of(self, binding: Binding) -> Mapping[str, Template]:
        return {role.name: (VOLCANO_JOB, template_at(place)) for place, role in enumerate(binding.roles)}

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
                "/spec/policies": "what to do when a pod fails, from the trainer's table of exit codes; the first match wins. "
                "A peer's loss that is seen before a permanent code starts all again once",
                "/spec/plugins/tensorflow": "tells each pod all tasks, and which of them it is (TF_CONFIG)",
                "/spec/plugins/ssh": "keys of the run, in every pod, by which mpirun starts the ranks",
                "/spec/plugins/mpi": "tells the launcher the names of the workers (MPI_HOST)",
                "/spec/tasks": "one task for all nodes, so that an index is a node; otherwise one for each role",
                **{f"/spec/tasks/{place}/maxRetry": _RETRIES for place in range(MOST_JOBS)},
                **{
                    pointer: why
                    for place in range(MOST_JOBS)
                    for pointer, why in template_reasons(template_at(place)).items()
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
                Owned(r"/spec/tasks/[0-9]+/(name|replicas|minAvailable)", "the number of pods", "change topology or roles"),
                Owned(r"/spec/tasks/[0-9]+/(policies|maxRetry|dependsOn).*", "how pods come back", "change restarts, or roles"),
                Owned(rf"/spec/tasks/(?![0-{MOST_JOBS - 1}](/|$)).*", "the nodes of the run", "change topology or roles"),
            ),
            free=(
                "/spec/networkTopology", "/spec/runningEstimate",
                *(f"/spec/tasks/{place}/partitionPolicy" for place in range(MOST_JOBS)),
                *(f"/spec/tasks/{place}/topologyPolicy" for place in range(MOST_JOBS)),
            ),
        ),
    )


TARGET: Target = VolcanoJob()

_INDEX = {
    "VC_TASK_INDEX": "the pod's index, by the plugin env",
    "VK_TASK_INDEX": "the pod's index, by the plugin env",
}


def _hosts(task: str) -> dict[str, str]:
    """What the plugin svc appends after the run's own variables (pkg/controllers/job/plugins/svc)."""
    name = task.upper().replace("-", "_")
    return {
        f"VC_{name}_HOSTS": f"the names of all pods of task {task}, by the plugin svc",
        f"VC_{name}_NUM": f"the number of pods of task {task}, by the plugin svc",
    }


def _nodes(needs: Needs) -> Binding:
    return Binding(
        roles=(Role(name=NODE, pods=needs.nodes, host="{name}-node-{index}.{name}", container="trainer"),),
        rank_zero_host="{name}-node-0.{name}",
        node_index_env="VC_TASK_INDEX",
        index_field=INDEX_LABEL,
        renders={torch.INDEX: INDEX_LABEL},
        peer_list=("VC_NODE_HOSTS", "{host},"),
        gang=Gang.OBJECTS,
    )


NO_TASK = "_none"
"""No name of a task, since it is no DNS label."""
_NOT_IN_CLUSTER = (
    "the plugin lists the task that it takes for the evaluator in TF_CONFIG's cluster, and the chief waits for every task in it; "
    "under its own name the pod is told that it is the evaluator all the same"
)
_IN_CLUSTER = "the plugin tensorflow would list its pods in TF_CONFIG, and workers wait for every task in it"


def _by_tensorflow(needs: Needs) -> Binding:
    """The plugin appends TF_CONFIG after the run's own variables (plugins/distributed-framework/tensorflow). A task that it does
    not know by name is not in the cluster, and its own type there is its name.
    """
    tasks = tasks_of(needs)
    there = tasks.roles(needs, ".{name}")
    return Binding(
        roles=tuple(there[task] for task in TENSORFLOW if task in there),
        rank_zero_host="{name}-chief-0.{name}" if tasks.chief else "{name}-worker-0.{name}",
        rendezvous_port=PORT,
        index_field=INDEX_LABEL,
        port_name="tfjob-port",
        injects={"TF_CONFIG": "addresses of all tasks, and the pod's own place among them, by the plugin tensorflow"},
        peer_list=("TF_CONFIG", f'"{{host}}:{PORT}",'),
        reserved_roles=dict.fromkeys(["chief", "ps", *([] if tasks.parameter_servers else ["evaluator"])], _IN_CLUSTER),
        gang=Gang.OBJECTS,
    )


def _by_mpirun(needs: Needs) -> Binding:
    """The plugin ssh has keys for every pod, and nobody writes a host file with slots: the run brings it."""
    mpi = needs.part(MPI)
    assert mpi is not None  # noqa: S101 - asked of those alone
    return Binding(
        roles=launcher_and_workers(mpi, needs.nodes, "{name}-launcher-{index}.{name}", "{name}-worker-{index}.{name}"),
        rank_zero_host="{name}-launcher-0.{name}" if mpi.launcher_holds_ranks else "{name}-worker-0.{name}",
        injects={"MPI_HOST": "names of the workers, on the launcher, by the plugin mpi"},
        environment=EnvironmentChannel.LAUNCHER,
        # the plugin svc writes a list of hosts for each task (volcano, pkg/controllers/job/plugins/svc)
        of_rendezvous=Mpirun(
            mpi, brings_hostfile=True, plain_list=None if mpi.launcher_holds_ranks else f"/etc/volcano/{WORKER}.host"
        ),
        peer_list=("VC_WORKER_HOSTS", "{host},"),
        gang=Gang.OBJECTS,
        # Ranks are tied to the launcher's supervisor, which ends with the code of the rank that failed first.
    )


_BINDINGS = {
    Rendezvous.STATIC: _nodes,
    Rendezvous.TF_CONFIG: _by_tensorflow,
    Rendezvous.MPI_HOSTFILE: _by_mpirun,
}


def _job(resolution: Resolution) -> Tree:
    run, roles = resolution.run, resolution.binding.roles
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": top_metadata(resolution),
        "spec": {
            **_scheduling(resolution),
            **_all_done(resolution),
            "maxRetry": Why(
                run.restarts + 1,
                "run:/restarts",
                "restarts + 1: the Job has failed when it was to start again so often (pkg/controllers/job/state/restarting.go)",
            ),
            "plugins": _plugins(resolution),
            **time_to_live(run),
            "policies": _policies(resolution),
            "tasks": [_task(resolution, role) for role in roles],
        },
    }


def _plugins(resolution: Resolution) -> Tree:
    """In the order in which the webhook's patch leaves them to a reader: those of every run first."""
    needs = resolution.needs
    plugins: Tree = {"env": [], "svc": ["--publish-not-ready-addresses=true", "--disable-network-policy=true"]}
    if needs.rendezvous is Rendezvous.TF_CONFIG:
        beside = any(one.name == EVALUATOR for one in needs.further)
        plugins["tensorflow"] = Why([f"--evaluator={NO_TASK}"], f"run:/roles/{EVALUATOR}", _NOT_IN_CLUSTER) if beside else []
    if mpi := needs.part(MPI):
        port = plan_ports(resolution.run).ssh
        keys = Why([f"--ssh-key-file-path={mpi.ssh.keys}", f"--ssh-port={port}"], "trainwright", mpi.ssh.reason)
        plugins["ssh"] = [] if mpi.as_root else keys
        if any(role.name == WORKER for role in resolution.binding.roles):
            plugins["mpi"] = [f"--master={LAUNCHER}", f"--worker={WORKER}", *([] if mpi.as_root else [f"--port={port}"])]
    return plugins


def _ending(resolution: Resolution) -> str | None:
    """The task with which the run is done; None where every pod must be."""
    needs, names = resolution.needs, [role.name for role in resolution.binding.roles]
    tasks = tasks_of(needs)
    if needs.part(MPI):
        return LAUNCHER
    if tasks.parameter_servers:
        return "chief" if tasks.chief else WORKER
    if needs.further and not any(one.must_end for one in needs.further):
        return "chief" if tasks.chief else names[0]
    return None


def _all_done(resolution: Resolution) -> Tree:
    if _ending(resolution) is not None:
        return {}
    pods = sum(role.pods for role in resolution.binding.roles)
    return {"minSuccess": Why(pods, "run:/topology/nodes", "every pod must be done")}


def _task(resolution: Resolution, role: Role) -> Tree:
    reason = "one pod a node" if role.counted_in == "run:/topology/nodes" else "pods of this role"
    together = "the pods of this role at once" if role.further else "all nodes at once: ranks wait for each other"
    policies = _task_policies(resolution, role)
    return {
        "name": role.name,
        "replicas": Why(role.pods, role.counted_in, reason),
        "minAvailable": Why(role.pods, role.counted_in, together),
        "maxRetry": 3,
        **_waits_for(resolution, role),
        **({"policies": policies} if policies else {}),
        "template": pod_template(resolution, role, {"restartPolicy": "Never"}),
    }


def _waits_for(resolution: Resolution, role: Role) -> Tree:
    """Tasks whose pods are ready before those of this one are made. A gang counts all pods, so there nobody can wait."""
    roles = resolution.binding.roles
    nodes = [one.name for one in roles if one.holds_ranks]
    first = [one.name for one in roles if one.further and one.further.starts == "before"]
    if role.further:
        return _depends_on(nodes, role.name) if role.further.starts == "after" else {}
    if role.name == LAUNCHER and len(nodes) > role.holds_ranks and not resolution.plan.gang:
        reason = "mpirun finds every worker, with its address and its sshd"
        return {"dependsOn": Why({"name": [WORKER]}, "trainwright", reason)}
    return _depends_on(first, first[0]) if first else {}


def _depends_on(names: Sequence[str], stated: str) -> Tree:
    return {"dependsOn": Why({"name": list(names)}, f"run:/roles/{stated}/starts", "as asked: their pods are ready first")}


def _task_policies(resolution: Resolution, role: Role) -> list[Why]:
    """Of one task; they come before those of the Job. A further role's exit codes are not ours, so none of them ends the run."""
    policies = []
    if role.further and any(process.supervised for process in resolution.processes.values()):
        policies.append(_AGAIN)
    if role.name == _ending(resolution):
        done = {"action": "CompleteJob", "event": "TaskCompleted"}
        policies.append(Why(done, "trainwright", "the run is done when this task is"))
    return policies


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


_AGAIN = Why(
    {"action": "RestartJob", "events": ["PodFailed", "PodEvicted"]},
    "trainwright",
    "all pods go, and all come back together: ranks cannot do without each other",
)


def _policies(resolution: Resolution) -> list[Tree | Why]:
    """A code each, then everything else. What starts a Job again kills all of its pods first, and counts; a request of a pod that
    was killed then is older than the Job and changes nothing (pkg/controllers/job/job_controller_util.go, applyPolicies)."""
    if not resolution.supervised:
        return [_AGAIN]
    permanent = [row for row in EXIT_CODES.values() if row.disposition is Disposition.PERMANENT and row.code not in IN_PLACE]
    return [
        *(
            Why(
                {"action": "TerminateJob", "exitCode": int(row.code)},
                "trainwright",
                f"{row.reason}: the same pod would fail again, so the run ends and keeps its logs",
            )
            for row in sorted(permanent, key=lambda row: int(row.code))
        ),
        _AGAIN,
    ]
