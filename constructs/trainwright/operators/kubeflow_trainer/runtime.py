"""The TrainingRuntime of a TrainJob: the JobSet that the operator makes of the two, less what is one run's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainwright.handshake import Binding, Rendezvous, Role
from trainwright.identity import PLACEHOLDER
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.labels import MANAGED, namespace_of
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.pod import pod_template, template_reasons
from trainwright.operators.base import owned_manager
from trainwright.operators.job.child_jobs import (
    BY_EXIT_CODE,
    MOST_JOBS,
    REPLACED,
    counted_jobs,
    failure_rules_below_job_set,
    in_order,
    job_set_rules,
    none_of_its_own,
    owned_below_job_set,
    reasons_of_none,
    restarts_of_the_set,
    waits_for,
)
from trainwright.operators.kubeflow_trainer.releases import GROUP
from trainwright.plan import Resolution
from trainwright.rendezvous.mpi import MPI

RUNTIME = GroupKind(GROUP, "TrainingRuntime")
NODE, LAUNCHER = "node", "launcher"
"""Replicated Jobs, by the names that the operator knows; the container that trains is ``node`` in both (pkg/constants)."""

POLICIES = {
    Rendezvous.STATIC: "torch",
    Rendezvous.DMLC_TRACKER: "xgboost",
    Rendezvous.MPI_HOSTFILE: "mpi",
    Rendezvous.JAX_COORDINATOR: "jax",
}
"""What the runtime's ``mlPolicy`` is called, by the rendezvous that it makes."""

JOBS = "/spec/template/spec/replicatedJobs"


def each_place(reasons: Callable[[int], Mapping[str, str]]) -> dict[str, str]:
    """The same of each place where a replicated Job can stand."""
    return {pointer: why for place in range(MOST_JOBS) for pointer, why in reasons(place).items()}


def pod_at(place: int) -> str:
    """Pointer of the pod template of a replicated Job."""
    return f"{JOBS}/{place}/template/spec/template"


def ordered(binding: Binding) -> list[Role]:
    """Roles in the order of their Jobs, which depend on those before them alone: the launcher comes after the nodes."""
    first, *others = binding.roles
    own = [role for role in others if not role.further]
    return in_order([*own, first, *(role for role in others if role.further)])


def jobs_of(resolution: Resolution) -> list[tuple[str, Role]]:
    """The replicated Jobs with the roles that they carry."""
    first = resolution.binding.roles[0]
    lead = LAUNCHER if resolution.needs.part(MPI) else NODE
    return [
        (role.name if role.further else lead if role is first else NODE, role) for role in ordered(resolution.binding)
    ]


def own_jobs(resolution: Resolution) -> list[str]:
    """Names of the Jobs of the topology."""
    return [name for name, role in jobs_of(resolution) if not role.further]


def runtime_name(resolution: Resolution) -> str:
    """With a placeholder for the hash of its content."""
    return f"{POLICIES[resolution.needs.rendezvous]}-{PLACEHOLDER}"


def training_runtime(resolution: Resolution) -> Tree:
    """With whole pods in it, until :meth:`TrainJob.finish` takes out what is the run's own."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {
            "name": runtime_name(resolution),
            "namespace": namespace_of(resolution.plan),
            "labels": {
                **MANAGED,
                "trainer.kubeflow.org/framework": POLICIES[resolution.needs.rendezvous],
            },
        },
        "spec": {
            "mlPolicy": {
                "numNodes": 1,
                POLICIES[resolution.needs.rendezvous]: Why(
                    _policy(resolution), "run:/topology/kind", "the pods are told of each other what this topology needs"
                ),
            },
            **_pod_group(resolution),
            "template": {
                **_queue(resolution),
                "spec": {
                    "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                    "successPolicy": {"operator": "All", **_success(resolution)},
                    "failurePolicy": {
                        "maxRestarts": restarts_of_the_set(resolution),
                        "restartStrategy": "Recreate",
                        "rules": job_set_rules(resolution, own_jobs(resolution)),
                    },
                    "replicatedJobs": [_job(resolution, name, role) for name, role in jobs_of(resolution)],
                },
            },
        },
    }


def _policy(resolution: Resolution) -> Tree:
    mpi = resolution.needs.part(MPI)
    if mpi is None:
        return {}
    return {
        "mpiImplementation": Why("OpenMPI", "run:/topology/mpi", "the MPI in the image"),
        "numProcPerNode": Why(1, "trainwright", "each run states its own number"),
        "runLauncherAsNode": Why(mpi.launcher_holds_ranks, "run:/topology", "whether the launcher is a node too"),
        "sshAuthMountPath": Why(mpi.ssh.keys, "trainwright", mpi.ssh.reason),
    }


def _pod_group(resolution: Resolution) -> Tree:
    gang = resolution.plan.gang
    if gang is None:
        return {}
    policy: Tree = {"volcano": {}} if gang.scheduler == "volcano" else {"coscheduling": {"scheduleTimeoutSeconds": 60}}
    return {"podGroupPolicy": policy}


def _queue(resolution: Resolution) -> Tree:
    """The operator hands this annotation on to the PodGroup (pkg/runtime/framework/plugins/volcano)."""
    gang = resolution.plan.gang
    if gang is None or gang.scheduler != "volcano" or gang.queue is None:
        return {}
    return {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": Why(gang.queue, "run:/queue", "the Volcano queue")}}}


def _success(resolution: Resolution) -> Tree:
    if resolution.needs.part(MPI) is None:
        return counted_jobs(resolution.binding.roles, [NODE])
    must_end = [one.name for one in resolution.needs.further if one.must_end]
    reason = "workers run sshd until the launcher has ended; then the JobSet takes them down"
    return {"targetReplicatedJobs": Why([LAUNCHER, *must_end], "trainwright", reason)}


def _job(resolution: Resolution, name: str, role: Role) -> Tree:
    """The operator fills in the number of pods: for a launcher that of the policy, for nodes that of the TrainJob; that of a
    further role stands here.
    """
    trains = role is resolution.binding.roles[0]
    label = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}}
    return {
        "name": name,
        "replicas": 1,
        **_starts_after(resolution, name, role),
        "template": {
            **(label if trains else {}),
            "spec": {
                "completionMode": "Indexed",
                **(_pods(role) if role.further else {}),
                **none_of_its_own(resolution, role),
                "podReplacementPolicy": "Failed",
                "podFailurePolicy": {"rules": failure_rules_below_job_set(resolution, role)},
                "template": pod_template(resolution, role, {"restartPolicy": "Never"}),
            },
        },
    }


def _pods(role: Role) -> Tree:
    return {
        "completions": Why(role.pods, role.counted_in, "one index a pod"),
        "parallelism": Why(role.pods, role.counted_in, "all pods at once"),
    }


def _starts_after(resolution: Resolution, name: str, role: Role) -> Tree:
    """A launcher starts after its workers, as in the operator's own runtimes (trainer #3748). A gang counts pods that a Job still
    waits to make, and never starts.
    """
    nodes = own_jobs(resolution)[0]
    if name != LAUNCHER or nodes == LAUNCHER:
        return waits_for(role, resolution.binding.roles, nodes)
    if resolution.plan.gang:
        return {}
    reason = "mpirun finds every worker, with its address and its sshd"
    return {"dependsOn": Why([{"name": NODE, "status": "Ready"}], "trainwright", reason)}


def _job_reasons(place: int) -> dict[str, str]:
    job = f"{JOBS}/{place}/template"
    return {
        f"{job}/metadata": "by this label the operator knows the Job that trains",
        f"{job}/spec/completionMode": "each pod has a fixed index, by which it is named",
        **reasons_of_none(f"{job}/spec"),
        f"{job}/spec/podReplacementPolicy": REPLACED,
        f"{job}/spec/podFailurePolicy": BY_EXIT_CODE,
        **template_reasons(pod_at(place)),
    }


_EACH = f"{JOBS}/[0-9]+"

TRAINING_RUNTIME = ObjectKind(
    RUNTIME,
    reasons={
        "": "what runs of one shape have in common; it must be there before they are, so it belongs to the foundation",
        "/metadata": "called after its content: another shape is another runtime, and nothing changes under a run",
        "/metadata/labels": "the same for every runtime",
        "/metadata/labels/trainer.kubeflow.org~1framework": "the Kubeflow SDK lists only runtimes that say their framework, and "
        "fails on TrainJobs of others",
        "/spec/mlPolicy": "what the operator tells the pods of each other",
        "/spec/mlPolicy/numNodes": "each run states its own number; of launchers there is one",
        "/spec/podGroupPolicy": "the operator makes the group of pods that start together",
        "/spec/podGroupPolicy/coscheduling": "seconds that a part of the pods may wait for the rest before they let go",
        "/spec/template/metadata": "read by the operator where it makes the PodGroup",
        "/spec/template/spec": "the JobSet of the run",
        "/spec/template/spec/network": "a headless Service named like the run: every pod has a DNS name, before it is "
        "ready too; with a subdomain of its own the operator's address of rank 0 would be wrong",
        "/spec/template/spec/successPolicy": "the run is done when the Job that trains is",
        "/spec/template/spec/failurePolicy/restartStrategy": "all pods go, and all come back together: ranks cannot do "
        "without each other",
        "/spec/template/spec/failurePolicy/rules": "an exit code that would come again ends the run at once",
        JOBS: "one Job for all nodes, so that an index is a node, and one for each other role",
        **each_place(_job_reasons),
    },
    owned=(
        Owned(r"/spec/(mlPolicy|podGroupPolicy).*", "how the ranks find each other and start", "change topology or gang"),
        Owned(r"/spec/template/spec/suspend", "the start of the run", "remove it: a queue controller suspends and resumes"),
        Owned(
            r"/spec/template/spec/ttlSecondsAfterFinished",
            "the life of the run",
            "remove it: the operator makes a deleted JobSet again, and trains again (trainer #3779)",
        ),
        Owned(r"/spec/template/spec/network.*", "the address of the ranks", "remove it: the operator knows rank 0 by it"),
        Owned(r"/spec/template/spec/(success|failure|startup)Policy.*", "how the run ends and starts", "change restarts"),
        Owned(
            r"/spec/template/spec/(coordinator|volumeClaimPolicies).*",
            "how pods are found and what they mount",
            "remove it: peers know rank 0 by its name. A claim is one of mounts: what a JobSet makes is deleted with it",
        ),
        owned_manager("/spec/template/spec"),
        Owned(f"{_EACH}/(name|replicas|groupName|dependsOn.*|template/metadata/labels.*)", "the Jobs of the run", "remove it"),
        *owned_below_job_set(f"{_EACH}/template/spec"),
    ),
    free=(
        "/spec/template/metadata",
        *(f"{JOBS}/{place}/template/metadata" for place in range(MOST_JOBS)),
        *(f"{JOBS}/{place}/template/spec/activeDeadlineSeconds" for place in range(MOST_JOBS)),
    ),
)
