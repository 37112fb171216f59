"""The pod template that every target shares."""

from __future__ import annotations

from typing import Any

from trainwright.handshake import Process, Role
from trainwright.locate import escape
from trainwright.manifest.labels import pod_labels
from trainwright.manifest.volumes import volume_mounts, volumes
from trainwright.manifest.why import Why
from trainwright.plan import Resolution
from trainwright.plan.model import EnvironmentVariable
from trainwright_trainer.contract.layout import HTTP_PORT
from trainwright_trainer.contract.termination import TERMINATION_PATH

Tree = dict[str, Any]

USER_ID = 1000
"""User, group and file system group of every pod; the trainer's images use the same."""


def pod_template(resolution: Resolution, role: Role) -> Tree:
    """Metadata and spec, in a reviewer's order: how the pod lives, where it goes, who it is, what it runs, what it mounts."""
    run, plan, process = resolution.run, resolution.plan, resolution.processes[role.name]
    spec: Tree = {
        "restartPolicy": "Never",
        "subdomain": Why(plan.name, "trainwright", "name of the headless Service: gives every pod a DNS name"),
        "terminationGracePeriodSeconds": Why(plan.grace.seconds, "trainwright", plan.grace.reason),
        **_placement(resolution),
        **_service_account(resolution),
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(resolution, role, process)],
        "volumes": volumes(run, plan, process),
    }
    return {"metadata": {"labels": pod_labels(run, plan)}, "spec": spec}


def _placement(resolution: Resolution) -> Tree:
    pool, pointer = resolution.pool, f"cluster:/node_pools/{escape(resolution.plan.world.pool)}"
    placement: Tree = {}
    if pool.labels:
        placement["nodeSelector"] = Why(dict(pool.labels), f"{pointer}/labels", "the nodes of the pool")
    if pool.taints:
        placement["tolerations"] = Why(
            [
                {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
                if taint.value
                else {"key": taint.key, "operator": "Exists", "effect": taint.effect}
                for taint in pool.taints
            ],
            f"{pointer}/taints",
            "the pool's taints, so that pods may go there",
        )
    return placement


def _service_account(resolution: Resolution) -> Tree:
    run = resolution.run
    account: Tree = {}
    if run.service_account:
        account["serviceAccountName"] = Why(run.service_account, "run:/service_account", "as asked")
        account["automountServiceAccountToken"] = Why(True, "run:/service_account", "a run that names an account uses its token")
    else:
        account["automountServiceAccountToken"] = Why(False, "trainwright", "training needs no access to the API server")
    if run.image_pull_secrets:
        secrets = [{"name": name} for name in run.image_pull_secrets]
        account["imagePullSecrets"] = Why(secrets, "run:/image_pull_secrets", "as asked")
    return account


def _container(resolution: Resolution, role: Role, process: Process) -> Tree:
    run, plan = resolution.run, resolution.plan
    command = Why(list(process.command), "run:/workload/command", "as asked")
    if process.supervised:
        command = Why(list(process.command), "trainwright", "the supervisor: exit codes, probes, metrics and lost peers")
    return {
        "name": Why(role.container, "trainwright", "the container that trains"),
        "image": Why(run.image, "run:/image", "as asked"),
        "command": command,
        "env": [_variable(variable) for variable in plan.environment],
        "ports": _ports(resolution, process),
        "resources": _resources(resolution),
        **(_probes() if process.supervised else {}),
        "terminationMessagePath": TERMINATION_PATH,
        "terminationMessagePolicy": "File" if process.supervised else "FallbackToLogsOnError",
        "securityContext": _container_security(resolution),
        "volumeMounts": volume_mounts(run, plan, process),
    }


def _variable(variable: EnvironmentVariable) -> Why:
    tree: Tree = {"name": variable.name}
    if variable.secret:
        tree["valueFrom"] = {"secretKeyRef": {"name": variable.secret.secret, "key": variable.secret.key}}
    elif variable.field:
        tree["valueFrom"] = {"fieldRef": {"apiVersion": "v1", "fieldPath": variable.field}}
    else:
        tree["value"] = variable.value
    return Why(tree, variable.source, variable.reason)


def _ports(resolution: Resolution, process: Process) -> list[Tree]:
    rendezvous = resolution.plan.rendezvous
    ports = [_port("rendezvous", rendezvous.port, "rank 0 listens here")]
    if process.supervised:
        ports.append(_port("control", rendezvous.control_port, "node 0's supervisor listens here for the others"))
        ports.append(_port("http", HTTP_PORT, "probes and metrics"))
    return ports


def _port(name: str, number: int, reason: str) -> Tree:
    return {"name": name, "containerPort": Why(number, "trainwright", reason), "protocol": "TCP"}


def _resources(resolution: Resolution) -> Tree:
    resources, needs, pool = resolution.plan.resources, resolution.needs, resolution.pool
    amounts: Tree = {
        "cpu": Why(str(resources.cpu), "run:/resources/cpu", resources.cpu_reason),
        "memory": Why(str(resources.memory), "run:/resources/memory", resources.memory_reason),
    }
    if needs.gpus_per_node and pool.gpu:
        amounts[pool.gpu.resource] = Why(str(needs.gpus_per_node), "run:/topology/gpus_per_node", "one GPU a rank")
    if uses_rdma(resolution):
        source = f"cluster:/node_pools/{escape(resolution.plan.world.pool)}/fabric/resource"
        amounts[str(pool.fabric.resource)] = Why(str(pool.fabric.resource_count), source, "the pod's RDMA devices")
    return {"requests": dict(amounts), "limits": dict(amounts)}


def uses_rdma(resolution: Resolution) -> bool:
    """Whether pods ask for RDMA devices: several GPU nodes on a fabric that offers them."""
    needs, fabric = resolution.needs, resolution.pool.fabric
    return bool(needs.gpus_per_node and needs.nodes > 1 and fabric.resource)


def _container_security(resolution: Resolution) -> Tree:
    capabilities: Tree = {"drop": ["ALL"]}
    if uses_rdma(resolution) and resolution.pool.fabric.ipc_lock:
        source = f"cluster:/node_pools/{escape(resolution.plan.world.pool)}/fabric/ipc_lock"
        capabilities["add"] = Why(["IPC_LOCK"], source, "the node's runtime limits locked memory, which RDMA needs")
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": capabilities}


def _probes() -> Tree:
    return {
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 5,
            "timeoutSeconds": 3,
            "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
    }


CONSTANTS = {
    "restartPolicy": "a failed pod is replaced by a new one, so that its exit code counts and it may move to another node",
    "enableServiceLinks": "variables for every Service of the namespace would be noise, and can collide",
    "securityContext": "as strict as the `restricted` pod security standard",
    "containers": "one container: the work and its supervisor",
    "containers/0/env": "the environment, each variable with its reason",
    "containers/0/ports": "what the pod listens on",
    "containers/0/resources": "requests equal limits: guaranteed quality of service, and no overcommitted memory",
    "containers/0/readinessProbe": "the specification is valid; never training progress: ranks would wait for each other",
    "containers/0/livenessProbe": "the supervisor itself is alive; it finds hangs of the ranks on its own",
    "containers/0/terminationMessagePath": "where `kubectl describe pod` finds why the pod ended",
    "containers/0/terminationMessagePolicy": "the supervisor writes the message; of an opaque command the last log lines must do",
    "containers/0/securityContext": "as strict as the `restricted` pod security standard, with a read-only root file system",
    "containers/0/volumeMounts": "what the container sees, and where",
    "volumes": "what the pod brings along",
}
"""Path below the pod template's ``spec`` -> why the constants there are as they are."""


def template_constants(prefix: str) -> dict[str, str]:
    """The constants of the shared template, for a target that puts it at ``prefix`` (``Job/spec/template``)."""
    return {
        f"{prefix}": "the pod of every rank",
        f"{prefix}/metadata": "labels that find the pods of a run; part of its identity",
        **{f"{prefix}/spec/{path}": reason for path, reason in CONSTANTS.items()},
    }
