"""What the kinds of the Kubeflow Training Operator v1 share: run policy, restart policy and their reasons."""

from __future__ import annotations

from trainwright.handshake import Role
from trainwright.manifest.pod import pod_template
from trainwright.manifest.provenance import Owned, Tree, Why
from trainwright.manifest.scheduling import scheduling_policy
from trainwright.plan import Resolution
from trainwright.target.base import Releases

RELEASES = Releases((1, 7), (1, 9))

COUNTS_INIT_FAILURES = False
"""Restarts are counted in pods that run, and such a pod does not. Under ``ExitCode`` the operator looks for the code of the main
container, finds none, and makes the pod anew (pkg/controller.v1/common/pod.go and job.go)."""


def replica_specs(resolution: Resolution) -> Tree:
    """The pods of each role, by the name that the operator has for it."""
    return {
        role.name.capitalize(): {
            "replicas": Why(role.pods, "run:/topology/nodes", "pods of this role"),
            "restartPolicy": _restart_policy(resolution, role),
            "template": pod_template(resolution, role, {}),
        }
        for role in resolution.binding.roles
    }


def run_policy(resolution: Resolution) -> Tree:
    """How long pods stay, and how often the run may fail."""
    return {"cleanPodPolicy": "Running", "backoffLimit": _backoff_limit(resolution), **scheduling_policy(resolution)}


def _backoff_limit(resolution: Resolution) -> Why:
    """The operator adds up the restarts of containers in all running pods, those of init containers too, and ends the run when
    the sum has reached the limit; with 0 it ends it at the first one (pkg/controller.v1/common/job.go, PastBackoffLimit).
    """
    restarts, roles = resolution.run.restarts, resolution.binding.roles
    if all(resolution.processes[role.name].supervised for role in roles):
        reason = "restarts of containers; pods made anew for their exit code are not counted: the trainer's ledger ends a loop"
        return Why(restarts, "run:/restarts", reason)
    pods = sum(role.pods for role in roles)
    reason = (
        "restarts x pods + 1: the operator adds up the restarts of all containers, init containers too, and ends the run when "
        "the sum reaches this number; one failure of the run can restart every pod"
    )
    return Why(restarts * pods + 1 if restarts else 0, "run:/restarts", reason)


def _restart_policy(resolution: Resolution, role: Role) -> Why:
    """By the supervisor's exit codes where it is there; a command's own codes mean nothing to the operator."""
    if resolution.processes[role.name].supervised:
        reason = "codes up to 127 would fail again and end the run; from 128 on the pod is made anew"
        return Why("ExitCode", "trainwright", reason)
    return Why("OnFailure", "trainwright", "the command's exit codes say nothing of whether it would fail again")


def constants(kind: str) -> dict[str, str]:
    """Reasons for the constants of one kind."""
    return {
        kind: "the run itself",
        f"{kind}/metadata": "run name and identity hash: an edit that would change a pod is a new object",
        f"{kind}/metadata/labels": "labels of the run's objects; free to change",
        f"{kind}/spec/runPolicy": "how the run ends",
        f"{kind}/spec/runPolicy/cleanPodPolicy": "pods that still run when the run has ended would keep their GPUs; ended ones "
        "keep their logs",
    }


def owned(replicas: str, roles: str) -> tuple[Owned, ...]:
    """What no override may touch. ``replicas`` is the pointer of the replica specs, ``roles`` a pattern of their names."""
    return (
        Owned(r"/spec/runPolicy/suspend", "the start of the run", "remove it: a queue controller suspends and resumes by itself"),
        Owned(
            r"/spec/runPolicy/ttlSecondsAfterFinished",
            "the life of the run",
            "remove it: the operator deletes the object itself, and Argo CD would make it again and train again",
        ),
        Owned(r"/spec/runPolicy/backoffLimit", "the retry budget", "change restarts"),
        Owned(r"/spec/runPolicy/(cleanPodPolicy|managedBy)", "how the run ends", "remove it: ended runs must not keep GPUs"),
        Owned(r"/spec/runPolicy/schedulingPolicy.*", "how pods start together", "change gang, queue or priority"),
        Owned(
            r"/spec/schedulerName",
            "the scheduler of the pods",
            "remove it: this kind has no such field; change gang, or scheduling in the cluster profile",
        ),
        Owned(rf"{replicas}/(?!({roles})(/|$))\w+(/.*)?", "the roles of the run", "remove it: the ranks would wait for it"),
        Owned(rf"{replicas}/\w+/(replicas|restartPolicy)", "the number of pods, and how they come back", "change topology"),
    )
