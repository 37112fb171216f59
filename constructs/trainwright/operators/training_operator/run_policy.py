"""What PyTorchJob, TFJob, XGBoostJob and MPIJob share: pods listed by role, a run policy, and how they start together.

All four are Kubeflow's. The first three are of its Training Operator v1, whose ways with exit codes stand here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainwright.handshake import Recovery, Role
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.kueue import managed_by
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.life import deadline, time_to_live
from trainwright.manifest.template.pod import pod_template, template_reasons
from trainwright.operators.base import Template, owned_manager, run_kind
from trainwright.plan import Resolution

GROUP = "kubeflow.org"

RESERVED_LABELS = ("training.kubeflow.org/",)

RECOVERY = Recovery(
    counts_init_failures=False, counts_new_pods=False, may_end=True, returns="each pod that has ended comes back at once"
)
"""Restarts are counted in pods that run, and one whose init container fails does not. Under ``ExitCode`` the operator looks for
the code of the main container, finds none, and makes the pod again (pkg/controller.v1/common/pod.go and job.go). Nor does a pod
that is replaced for its exit code count (PastBackoffLimit in pkg/controller.v1/common/job.go). A pod comes back under
``ExitCode`` by its code, and under ``OnFailure`` where it has failed (pkg/controller.v1/common/pod.go)."""

HIDES_UNREADY = True
"""The Service of each pod leaves publishNotReadyAddresses out (pkg/controller.v1/common/service.go)."""


@dataclass(frozen=True, slots=True)
class ReplicaSpecs:
    """Where a kind lists its pods by role."""

    kind: GroupKind
    field: str
    """Of the spec, such as ``pytorchReplicaSpecs``."""
    roles: Mapping[str, str]
    """Role as the operator calls it -> why its pods are there."""

    @property
    def pointer(self) -> str:
        return f"/spec/{self.field}"

    @property
    def templates(self) -> dict[str, Template]:
        """Role -> where its pod template is."""
        return {role.lower(): (self.kind, f"{self.pointer}/{role}/template") for role in self.roles}

    def object_kind(self, reasons: Mapping[str, str], owned: tuple[Owned, ...], ttl: str) -> ObjectKind:
        """The kind with what all have in common. ``ttl`` says why its objects must not have a time to live."""
        return run_kind(
            self.kind,
            reasons={
                "/spec/runPolicy": "how the run ends",
                self.pointer: "the pods of the run",
                **{f"{self.pointer}/{role}": why for role, why in self.roles.items()},
                **{key: why for role in self.roles for key, why in template_reasons(f"{self.pointer}/{role}/template").items()},
                **reasons,
            },
            owned=(*self._owned(ttl), *owned),
            free=("/spec/runPolicy/activeDeadlineSeconds",),
            mutable=("/spec/runPolicy/ttlSecondsAfterFinished",),
        )

    def _owned(self, ttl: str) -> tuple[Owned, ...]:
        roles = "|".join(self.roles)
        return (
            Owned(r"/spec/runPolicy/suspend", "the start of the run", "remove it: a queue controller suspends and resumes"),
            Owned(r"/spec/runPolicy/ttlSecondsAfterFinished", "the life of the run", f"remove it: {ttl}"),
            Owned(r"/spec/runPolicy/backoffLimit", "the retry budget", "change restarts"),
            Owned(r"/spec/runPolicy/cleanPodPolicy", "how the run ends", "remove it: ended runs must not keep GPUs"),
            owned_manager("/spec/runPolicy"),
            Owned(r"/spec/runPolicy/schedulingPolicy.*", "how pods start together", "change gang, queue or priority"),
            Owned(rf"{self.pointer}/(?!({roles})(/|$))\w+(/.*)?", "the roles of the run", "remove it: ranks would wait for it"),
            Owned(rf"{self.pointer}/\w+/replicas", "the number of pods", "change topology, or roles for pods of another kind"),
            Owned(
                rf"{self.pointer}/\w+/restartPolicy",
                "how pods come back",
                "remove it: it follows from what the pods run; restarts says how often they may",
            ),
        )

    def lower(self, resolution: Resolution, restart_policy: Callable[[Resolution, Role], str | Why]) -> Tree:
        """The pods of each role, under the name that the operator has for it."""
        names = {role.lower(): role for role in self.roles}
        return {
            names[role.name]: {
                "replicas": Why(role.pods, role.counted_in, "pods of this role"),
                "restartPolicy": restart_policy(resolution, role),
                "template": pod_template(resolution, role, {}),
            }
            for role in resolution.binding.roles
        }


def run_policy(resolution: Resolution, backoff_limit: Why) -> Tree:
    """How long pods stay, how often the run may fail, and how pods start together."""
    life = {**managed_by(resolution), **deadline(resolution.run), **time_to_live(resolution.run)}
    return {"cleanPodPolicy": "Running", "backoffLimit": backoff_limit, **life, **_scheduling_policy(resolution)}


def _scheduling_policy(resolution: Resolution) -> Tree:
    """Read by the operator where its flag has it make the PodGroup."""
    gang, run = resolution.plan.gang, resolution.run
    if gang is None:
        return {}
    policy: Tree = {"minAvailable": Why(gang.minimum, "run:/topology", gang.minimum_reason)}
    if gang.scheduler == "volcano":
        policy["queue"] = Why(gang.queue or "default", "run:/queue", "the Volcano queue")
    if run.priority:
        policy["priorityClass"] = Why(run.priority, "run:/priority", "as asked")
    return {"schedulingPolicy": policy}


# The Training Operator v1.


def master_and_workers(nodes: int, container: str) -> tuple[Role, ...]:
    """The first node, and the others, if there are any."""
    master = Role("master", pods=1, host="{name}-master-{index}", container=container)
    workers = Role("worker", pods=nodes - 1, host="{name}-worker-{index}", container=container)
    return (master, workers) if workers.pods else (master,)


def training_kind(replicas: ReplicaSpecs, reasons: Mapping[str, str], owned: tuple[Owned, ...]) -> ObjectKind:
    """A kind of the Training Operator."""
    clean = "pods that still run when the run has ended would keep their GPUs; ended ones keep their logs"
    scheduler = Owned(
        r"/spec/schedulerName",
        "the scheduler of the pods",
        "remove it: this kind has no such field; change gang, or scheduling in the cluster profile",
    )
    ttl = "the operator deletes the object itself, and Argo CD would make it again and train again"
    return replicas.object_kind({"/spec/runPolicy/cleanPodPolicy": clean, **reasons}, (scheduler, *owned), ttl)


def backoff_limit(resolution: Resolution) -> Why:
    """The operator adds up the restarts of containers in all running pods, those of init containers too, and ends the run when
    the sum has reached the limit; with 0 it ends it at the first one (pkg/controller.v1/common/job.go, PastBackoffLimit).
    """
    restarts, roles = resolution.run.restarts, resolution.binding.roles
    if all(resolution.processes[role.name].supervised for role in roles):
        reason = "restarts of containers; pods replaced for their exit code are not counted: the trainer's ledger ends a loop"
        return Why(restarts, "run:/restarts", reason)
    elastic = resolution.needs.elastic
    pods = elastic.maximum if elastic else sum(role.pods for role in roles)
    counted = f"restarts x {'the most ' if elastic else ''}pods + 1"
    reason = (
        f"{counted}: the operator adds up the restarts of all containers, init containers and pods that still start too, and "
        "ends the run when the sum reaches this number; one failure of the run can restart every pod"
    )
    return Why(restarts * pods + 1 if restarts else 0, "run:/restarts", reason)


def restart_policy(resolution: Resolution, role: Role) -> Why:
    """By the supervisor's exit codes where it is there; a command's own codes mean nothing to the operator."""
    if resolution.run.restarts == 0 and resolution.run.on_disruption == "fail":
        return Why("Never", "run:/on_disruption", "no pod comes back: one that fails or is evicted ends the run")
    if resolution.processes[role.name].supervised:
        reason = "codes up to 127 would fail again and end the run; from 128 on the pod is replaced"
        return Why("ExitCode", "trainwright", reason)
    return Why("OnFailure", "trainwright", "the command's exit codes say nothing of whether it would fail again")
