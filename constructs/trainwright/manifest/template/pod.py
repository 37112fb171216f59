"""The pod template that every target shares."""

from __future__ import annotations

import re

from trainwright.cluster import NodePool
from trainwright.command.references import REFERENCE
from trainwright.findings.locate import escape
from trainwright.handshake import Port, Process, Role
from trainwright.manifest import gang, kueue
from trainwright.manifest.labels import ROLE_LABEL, pod_annotations, pod_labels
from trainwright.manifest.limits import literal
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template import life, scheduling
from trainwright.manifest.template.awaiting import await_containers
from trainwright.manifest.template.bringing import bring_containers
from trainwright.manifest.template.containers import beside, init_containers, own_volumes, pull_policy
from trainwright.manifest.template.security import container_security, pod_security
from trainwright.manifest.template.volumes import brought_volume, volume_mounts, volumes
from trainwright.plan import Resolution
from trainwright.plan.environment import is_stated, value_from
from trainwright.plan.model import EnvironmentVariable
from trainwright.plan.resources import uses_rdma
from trainwright.plan.stated import Stated, merged
from trainwright.rendezvous.ray import RayPods
from trainwright.run import CommandWorkload, EnvSource, ResourceClaim, ScriptWorkload, WholeSecret
from trainwright_trainer.contract.exit_codes import TERMINATION_PATH


def pod_template(resolution: Resolution, role: Role, begins: Tree) -> Tree:
    """Metadata and spec, in a reviewer's order: how the pod lives, where it goes, who it is, what it runs, what it mounts.

    ``begins`` is what the target writes first: restart policy and address, as far as its controller leaves them open.
    """
    run, plan, process = resolution.run, resolution.plan, resolution.processes[role.name]
    brought = [*volumes(resolution, role), *own_volumes(resolution, role)]
    by_path = {mount["mountPath"].value: mount for mount in volume_mounts(resolution, role)}
    claims = [Why(_claim(name, one), source, "as asked") for name, one, source in _claims(resolution, role)]
    bringing = bring_containers(resolution, role, brought_volume(resolution, role))
    waiting = [*bringing, *await_containers(resolution, role), *init_containers(resolution, role, by_path)]
    spec: Tree = {
        **begins,
        "terminationGracePeriodSeconds": Why(plan.grace.seconds, "trainwright", plan.grace.reason),
        **scheduling.pod_fields(resolution, role),
        **scheduling.placement(resolution, role),
        **_network(resolution),
        **_service_account(resolution, role),
        "enableServiceLinks": False,
        "securityContext": pod_security(resolution.security_of(role)),
        **({"initContainers": waiting} if waiting else {}),
        "containers": [_container(resolution, role, process), *beside(resolution, role, by_path)],
        **({"volumes": brought} if brought else {}),
        **({"resourceClaims": claims} if claims else {}),
    }
    own = {ROLE_LABEL: Why(role.name, "trainwright", "what the pod is in the run")}
    metadata: Tree = {"labels": {**pod_labels(run, plan, role), **own, **gang.pod_labels(resolution)}}
    of_schedulers = {**gang.pod_annotations(resolution), **kueue.pod_annotations(resolution, role)}
    of_pool = _of_pool(*resolution.pool_of(role))
    annotations = {**of_pool, **pod_annotations(run, role), **of_schedulers, **_adapters(resolution, role)}
    return {"metadata": metadata | ({"annotations": annotations} if annotations else {}), "spec": spec}


def _of_pool(name: str, pool: NodePool) -> Tree:
    """Annotations that every pod of the pool has."""
    source, stated = f"cluster:/node_pools/{escape(name)}/pods/annotations", pool.pods.annotations
    return {key: Why(text, f"{source}/{escape(key)}", "of every pod in the pool") for key, text in stated.items()}


def _claims(resolution: Resolution, role: Role) -> list[tuple[str, ResourceClaim, str]]:
    """Name, claim and source of the devices that a pod gets: of one with ranks those of the pool, and then what is stated."""
    pool = f"cluster:/node_pools/{escape(resolution.plan.world.pool)}/pods/resource_claims"
    of_pool = resolution.pool.pods.resource_claims if role.holds_ranks else {}
    claims = {name: Stated(one, f"{pool}/{name}") for name, one in of_pool.items()}
    claims |= merged(resolution.run, role, "resource_claims", lambda words: words.resource_claims)
    return [(name, one, source) for name, (one, source) in claims.items()]


def _claim(name: str, stated: ResourceClaim) -> Tree:
    if stated.template is not None:
        return {"name": name, "resourceClaimTemplateName": stated.template}
    return {"name": name, "resourceClaimName": stated.claim}


def _adapters(resolution: Resolution, role: Role) -> Tree:
    """What attaches the adapters of the pool to a pod as networks; a pod on the node's network has them all."""
    needs, fabric = resolution.needs, resolution.pool.fabric
    if not (role.holds_ranks and needs.spans_gpu_nodes) or resolution.run.host_network:
        return {}
    source = f"cluster:/node_pools/{escape(resolution.plan.world.pool)}/fabric/pod_annotations"
    reason = "the pod gets the adapters of its node as networks"
    return {key: Why(text, f"{source}/{escape(key)}", reason) for key, text in fabric.pod_annotations.items()}


def headless(resolution: Resolution) -> Tree:
    """The address of a pod behind the run's own headless Service."""
    return {"subdomain": Why(resolution.plan.name, "trainwright", "name of the headless Service: gives every pod a DNS name")}


def _network(resolution: Resolution) -> Tree:
    if not resolution.run.host_network:
        return {}
    reason = "on the node's network the cluster's names need this policy"
    return {
        "hostNetwork": Why(True, "run:/host_network", "as asked"),
        "dnsPolicy": Why("ClusterFirstWithHostNet", "run:/host_network", reason),
    }


def _service_account(resolution: Resolution, role: Role) -> Tree:
    run, ray = resolution.run, resolution.binding.part(RayPods)
    reason = ray.api_access.get(role.name) if ray else None
    account: Tree = {}
    if reason and not run.service_account:
        account["automountServiceAccountToken"] = Why(True, "trainwright", reason)
    elif run.service_account:
        account["serviceAccountName"] = Why(run.service_account, "run:/service_account", "as asked")
        account["automountServiceAccountToken"] = Why(True, "run:/service_account", "a run that names an account uses its token")
    else:
        account["automountServiceAccountToken"] = Why(False, "trainwright", "training needs no access to the API server")
    if run.image_pull_secrets:
        secrets = [{"name": name} for name in run.image_pull_secrets]
        account["imagePullSecrets"] = Why(secrets, "run:/image_pull_secrets", "as asked")
    return account


def _container(resolution: Resolution, role: Role, process: Process) -> Tree:
    run, mounts = resolution.run, volume_mounts(resolution, role)
    image, stated = resolution.image(role)
    environment = [_variable(variable) for variable in resolution.environment(role)]
    return {
        "name": Why(role.container, "trainwright", "the program of the role" if role.further else "the container that trains"),
        "image": Why(image, stated, "as asked"),
        **pull_policy(run),
        **({} if resolution.binding.replaces_command else _command(resolution, role, process)),
        **_working_dir(resolution, role),
        **({"env": environment} if environment else {}),
        **({"envFrom": [_source(number, source) for number, source in enumerate(run.env_from)]} if run.env_from else {}),
        **({"ports": [_port(port) for port in process.ports]} if process.ports else {}),
        **_resources(resolution, role),
        **_probes(process),
        **life.probes(resolution, role),
        **life.lifecycle(resolution, role),
        "terminationMessagePath": TERMINATION_PATH,
        "terminationMessagePolicy": "File" if process.supervised else "FallbackToLogsOnError",
        **_container_security(resolution, role, process),
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _command(resolution: Resolution, role: Role, process: Process) -> Tree:
    """Command and arguments; where there is no command, the image's entrypoint is what runs."""
    workload, parts = resolution.run.workload, resolution.run.roles.get(role.name)
    own = bool(parts and process.command == parts.command)
    given = f"run:/roles/{role.name}/args" if parts and parts.args else "run:/workload/args"
    args = {"args": Why([_word(process, word, given) for word in process.args], given, "as asked")} if process.args else {}
    if role.further and process.command:
        return {"command": Why(list(process.command), f"run:/roles/{role.name}/command", "as asked"), **args}
    if not process.command:
        return args
    behind = [Why(literal(word), "trainwright", _SUPERVISOR) for word in process.behind]
    if process.supervised and not behind:
        source, reason = "trainwright", _SUPERVISOR
    elif own or (isinstance(workload, CommandWorkload) and process.command == workload.command):
        source, reason = f"run:/roles/{role.name}/command" if own else "run:/workload/command", "as asked"
    else:
        source, reason = "trainwright", "waits for the launcher, which starts the ranks here"
    if source == "trainwright":  # a script behind mpirun is handed on as it was written, as it is in the specification
        return {"command": Why([literal(word) for word in process.command], source, reason), **args}
    if process.handed_on:
        before = ["env", *(f"{name}=$({other})" for name, other in process.handed_on.items())]
        words = [_word(process, word, source) for word in process.command]
        return {"command": [*behind, *(Why(word, "trainwright", _TOLD) for word in before), *words], **args}
    if behind:
        return {"command": [*behind, *(Why(word, source, reason) for word in process.command)], **args}
    return {"command": Why(list(process.command), source, reason), **args}


_SUPERVISOR = "the supervisor: exit codes, probes, metrics and lost peers"
_TOLD = "tells the command its pod's index: a reference in env to a variable of the operator would stay as it is"
_KNOWN = "as asked, by the operator's name: the kubelet expands it before env runs"


def _word(process: Process, word: str, source: str) -> Why:
    """A word of the run's command. What ``env`` in front of it sets, the kubelet knows by the operator's own name alone."""

    def by_its_name(reference: re.Match[str]) -> str:
        name = reference[1]
        return f"$({process.handed_on[name]})" if name in process.handed_on else reference[0]

    expanded = REFERENCE.sub(by_its_name, word)
    return Why(expanded, source, "as asked" if expanded == word else _KNOWN)


def _working_dir(resolution: Resolution, role: Role) -> Tree:
    """That of the role, else that of the work; a further role has another program, and perhaps another image."""
    workload, parts = resolution.run.workload, resolution.run.roles.get(role.name)
    if parts and parts.working_dir:
        return {"workingDir": Why(parts.working_dir, f"run:/roles/{role.name}/working_dir", "as asked")}
    if isinstance(workload, ScriptWorkload | CommandWorkload) and workload.working_dir and not role.further:
        return {"workingDir": Why(workload.working_dir, "run:/workload/working_dir", "as asked")}
    return {}


def _variable(variable: EnvironmentVariable) -> Why:
    tree: Tree = {"name": variable.name}
    if variable.secret or variable.config_map or variable.field:
        tree["valueFrom"] = value_from(variable)
    elif variable.value is not None and not is_stated(variable):
        tree["value"] = literal(variable.value)
    else:
        tree["value"] = variable.value  # references in it are the run's own
    return Why(tree, variable.source, variable.reason)


def _source(number: int, source: EnvSource) -> Why:
    """What ``env`` states wins over it, whatever its keys are (core/v1, Container.envFrom)."""
    tree: Tree = {} if source.prefix is None else {"prefix": source.prefix}
    if isinstance(source, WholeSecret):
        tree["secretRef"] = {"name": source.secret}
    else:
        tree["configMapRef"] = {"name": source.config_map}
    return Why(tree, f"run:/env_from/{number}", "as asked; what env states wins")


def _port(port: Port) -> Tree:
    return {"name": port.name, "containerPort": Why(port.number, port.source, port.reason), "protocol": "TCP"}


def _resources(resolution: Resolution, role: Role) -> Tree:
    """Requests and limits; nothing where a run states none."""
    amounts = resolution.amounts[role.name]
    requests = {one.name: Why(one.request, one.request_source or one.source, one.reason) for one in amounts}
    limits = {one.name: Why(one.limit, one.source, one.reason) for one in amounts if one.limit}
    claims = [
        Why({"name": name, **({"request": one.request} if one.request else {})}, source, "its devices, for this container")
        for name, one, source in _claims(resolution, role)
    ]
    resources: Tree = {
        **({"requests": requests} if requests else {}), **({"limits": limits} if limits else {}),
        **({"claims": claims} if claims else {}),
    }  # fmt: skip
    return {"resources": resources} if resources else {}


def _container_security(resolution: Resolution, role: Role, process: Process) -> Tree:
    planned = resolution.security_of(role)
    security = container_security(planned)
    # where nothing is dropped, the usual capabilities have them
    added = [Why(name, "trainwright", reason) for name, reason in process.capabilities.items() if planned.hardened]
    if role.holds_ranks and uses_rdma(resolution.needs, resolution.pool) and resolution.pool.fabric.ipc_lock:
        source = f"cluster:/node_pools/{escape(resolution.plan.world.pool)}/fabric/ipc_lock"
        added.append(Why("IPC_LOCK", source, "the node's runtime limits locked memory, which RDMA needs"))
    added = [one for one in added if one.value not in planned.capabilities]
    if added:
        capabilities = security.setdefault("capabilities", {})
        capabilities["add"] = [*capabilities.get("add", []), *added]
    return {"securityContext": security} if security else {}


def _probes(process: Process) -> Tree:
    if not process.supervised:
        return _listens(process.ready_port) if process.ready_port else {}
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


def _listens(port: str) -> Tree:
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 5, "timeoutSeconds": 3, "failureThreshold": 3}
    return {"readinessProbe": Why(probe, "trainwright", f"peers can use the pod once something listens on {port}")}


TEMPLATE_REASONS = {
    "restartPolicy": "a failed pod is replaced by a new one, so that its exit code counts and it may move to another node",
    "affinity": "where pods are, seen from each other",
    "enableServiceLinks": "variables for every Service of the namespace would be noise, and can collide",
    "securityContext": "who the pod's processes are, as the run, the profile and the level of the namespace say",
    "initContainers": "what starts before the work",
    "containers": "one container: the work and its supervisor",
    "containers/0/env": "the environment, each variable with its reason",
    "containers/0/ports": "what the pod listens on",
    "containers/0/resources": "requests equal limits, unless the run states them apart: guaranteed quality of service",
    "containers/0/readinessProbe": "the specification is valid; never training progress: ranks would wait for each other",
    "containers/0/livenessProbe": "the supervisor itself is alive; it finds hangs of the ranks on its own",
    "containers/0/terminationMessagePath": "where `kubectl describe pod` finds why the pod ended",
    "containers/0/terminationMessagePolicy": "the supervisor writes the message; of an opaque command the last log lines must do",
    "containers/0/securityContext": "what the processes may do, as the run, the profile and the level of the namespace say",
    "containers/0/volumeMounts": "what the container sees, and where",
    "volumes": "what the pod brings along",
    "resourceClaims": "devices that a driver gives to the pod",
}
"""Path below the pod template's ``spec`` -> why the constants there are as they are."""


def template_reasons(pointer: str) -> dict[str, str]:
    """The reasons of the shared template, for a target that puts it at ``pointer`` (``/spec/template``)."""
    return {
        pointer: "a pod of the run",
        f"{pointer}/metadata": "labels that find the pods of a run; part of its identity",
        f"{pointer}/metadata/annotations": "what schedulers and networks read on pods",
        **{f"{pointer}/spec/{path}": reason for path, reason in TEMPLATE_REASONS.items()},
    }
