"""Rules on the finished pod: what overrides put into it must be schedulable, admissible and as reviewed as the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from trainwright.findings import Finding, Severity, Where
from trainwright.findings.codes import CODES, found
from trainwright.findings.context import Context
from trainwright.findings.locate import at, escape, tokens
from trainwright.manifest.pods import containers_of, image_volumes
from trainwright.manifest.template.containers import all_stated
from trainwright.manifest.template.volumes import RESERVED_PATHS, SCRATCH, volume_names
from trainwright.operators import TARGETS
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.rules.cluster.profile import class_findings, image_findings
from trainwright.rules.pods.objects import patch_of
from trainwright.rules.pods.pod_security import violations
from trainwright.rules.pods.storage import claim_findings, most_pods, path_findings, sharing_findings
from trainwright.rules.program.environment import variable_findings
from trainwright.rules.secrets import secret_findings
from trainwright.run import (
    AnyContainer,
    ClaimMount,
    EphemeralMount,
    HostPathMount,
    ImageMount,
    KubernetesContainer,
    KubernetesMount,
    NfsMount,
)
from trainwright.units import Bytes, Cpu, UnitError

Tree = dict[str, Any]
Pods = Sequence[tuple[str, Tree]]
"""The role of each pod, or its place where the plan does not know it, and its spec."""


_FROM_ELSEWHERE = (EphemeralMount, HostPathMount, NfsMount, ImageMount, KubernetesMount)
"""Mounts of which a level, a registry, a storage class or the API may refuse some."""


def changed_pods(context: Context, resolution: Resolution, found_pods: Sequence[RunPod]) -> Pods:
    """Those that these rules are about: none where all is the plan's own, without an override and a volume from elsewhere."""
    run = context.run
    from_elsewhere = any(isinstance(mount, _FROM_ELSEWHERE) for mount in run.mounts.values())
    brought = run.containers or any(pool.pods.containers or pool.pods.mounts for pool in resolution.node_pools)
    if not run.overrides.pod and not run.overrides.objects and not from_elsewhere and not brought:
        return []
    helpers = TARGETS[resolution.plan.target].helpers
    return [
        (pod.role or pod.place, pod.found.spec)
        for pod in found_pods
        if (pod.kind, pod.found.pointer.removesuffix("/spec")) not in helpers
    ]


def is_role(place: str, resolution: Resolution) -> bool:
    """Whether pods are those of a role of the plan."""
    return any(role.name == place for role in resolution.binding.roles)


def overridden_at(context: Context, role: str, field: str, name: str | None = None, below: str = "") -> Where:
    """Where an override writes a field of the pod, or the item of that name in it; of a mount's volume, the mount.

    ``below`` is a pointer into that item, for what is written as Kubernetes writes it.
    """
    if field == "volumes":
        for path, volume in volume_names(context.run).items():
            if volume == name:
                written = isinstance(context.run.mounts[path], KubernetesMount)
                return context.locate.run(f"/mounts/{escape(path)}" + (f"/volume{below}" if written else ""))
    if name is not None and (where := stated_at(context, name, below)):
        return where
    if "/" in role:
        return patch_of(context, role.partition("/")[0])
    patch = context.run.overrides.pod.get(role, {})
    if field not in patch:
        return context.locate.run("/overrides")
    pointer, items = f"/overrides/pod/{escape(role)}/{escape(field)}", patch[field]
    if isinstance(items, list):
        for index, item in enumerate(items):
            if isinstance(item, dict) and item.get("name") == name:
                return context.locate.run(f"{pointer}/{index}")
    return context.locate.run(pointer)


def stated_at(context: Context, name: str, below: str = "") -> Where | None:
    """Where a run, or a pool of its cluster, states a container, or a volume that is a container's or a pool's own."""
    if pointer := _among(context.run.containers, name, below):
        return context.locate.run(pointer)
    for key, pool in context.cluster.node_pools.items():
        at = f"/node_pools/{escape(key)}/pods"
        if pointer := _among(pool.pods.containers, name, below):
            return context.locate.cluster(at + pointer)
        if name.startswith("of-pool-") and pool.pods.mounts:
            return context.locate.cluster(f"{at}/mounts")
    return None


def _among(containers: Sequence[AnyContainer], name: str, below: str) -> str | None:
    """The pointer of the container with that name, or with a volume of that name; in one as Kubernetes writes it, of its part."""
    for number, container in enumerate(containers):
        at, written = f"/containers/{number}", isinstance(container, KubernetesContainer)
        if name == container.name:
            return f"{at}/container{below}" if written else at
        volume = name.removeprefix(f"of-{container.name}-")
        if volume != name and volume.isdigit():
            return f"{at}/volumes/{volume}{below}" if written else at
    return None


def added_containers(role: str, pod: Tree, resolution: Resolution) -> list[tuple[str, Tree]]:
    """All containers but those of the plan, each with the list that it is in."""
    waiting = pod.get("initContainers", [])[:1] if resolution.plan.data else ()
    own = [pod["containers"][0], *waiting] if is_role(role, resolution) else []
    return [(field, container) for field, container in containers_of(pod) if not any(container is one for one in own)]


def is_consistent(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """What a schema does not see, and the API server, the kubelet or the container runtime refuses."""
    if not pods:
        return  # few runs have overrides, and what follows takes its time to load
    from trainwright.validate.pods import reference_problems, template_problems

    for role, pod in pods:
        template = {"spec": pod}
        for problem in dict.fromkeys((*template_problems(template), *reference_problems(template))):
            if CODES[problem.code].severity is Severity.ERROR:  # the rest is said of variables below
                where = _overridden_below(context, role, pod, problem.pointer)
                yield found("TW603", where, problem.message, problem.fix)


def _overridden_below(context: Context, role: str, pod: Tree, pointer: str) -> Where:
    """Where an override writes what a pointer into a pod template leads to."""
    field, *rest = tokens(pointer)[1:] or [""]
    item = at(pod, f"/{field}/{rest[0]}") if rest else None
    below = "".join(f"/{escape(token)}" for token in rest[1:])
    return overridden_at(context, role, field, item.get("name") if isinstance(item, dict) else None, below)


def mounts(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """Mounts that an override adds besides those of the plan."""
    for role, pod in pods:
        if not is_role(role, resolution):
            continue
        main = pod["containers"][0]
        paths = [str(mount.get("mountPath")) for mount in main.get("volumeMounts") or []]
        stated = (*context.run.mounts, *(path for pool in resolution.node_pools for path in pool.pods.mounts))
        planned = [path for path in paths if path in (*RESERVED_PATHS, SCRATCH) or path in stated]
        where = overridden_at(context, role, "containers", main["name"])
        for path in paths:
            if path in planned:
                continue
            yield from path_findings(path, where)
            if any(PurePosixPath(other).is_relative_to(path) for other in planned if other not in (*RESERVED_PATHS, SCRATCH)):
                yield found("TW233", where, f"{path} would hide what the run mounts below it", "use another path")


def writes_once(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """Init containers that can write to a claim which several pods mount: each pod runs its own, and all at the same time."""
    pods_of = most_pods(resolution)
    writers = [
        (role, *writer)
        for role, pod in pods
        if role in pods_of
        for writer in _writers(role, pod, resolution)
    ]
    for role, name, claim in writers:
        count = sum(pods_of[other] for other in {other for other, _, its in writers if its == claim})
        if count > 1:
            message = f"init container {name} can write to claim {claim}, and {count} pods run it at the same time"
            fix = (
                "fetch data once, by `prepare`; or mount the claim with readOnly: true, or with a folder for each pod by "
                "subPathExpr; waive this if it does no harm"
            )
            yield found("TW243", overridden_at(context, role, "initContainers", name), message, fix)


def _writers(role: str, pod: Tree, resolution: Resolution) -> Iterator[tuple[str, str]]:
    """Added init containers that end before the work begins, each with a claim that it mounts for writing as the others do."""
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod.get("volumes") or []
        if volume.get("persistentVolumeClaim") and not volume["persistentVolumeClaim"].get("readOnly")
    }
    for field, container in added_containers(role, pod, resolution):
        if field == "initContainers" and container.get("restartPolicy") != "Always":
            mounted = [it for it in container.get("volumeMounts") or [] if not it.get("readOnly") and not it.get("subPathExpr")]
            written = dict.fromkeys(claims[it["name"]] for it in mounted if it.get("name") in claims)
            yield from ((str(container.get("name")), claim) for claim in written)


def claims(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """Claims that an override mounts, by the rules of the run's own."""
    pods_of, own = most_pods(resolution), {mount.claim for mount in context.run.mounts.values() if isinstance(mount, ClaimMount)}
    mounted: dict[str, dict[str, Tree]] = {}
    for role, pod in pods:
        for volume in pod.get("volumes") or []:
            claim = volume.get("persistentVolumeClaim")
            if claim and claim["claimName"] not in own:
                mounted.setdefault(claim["claimName"], {})[role] = volume
    for name, volumes in mounted.items():
        for role, volume in volumes.items():
            where = overridden_at(context, role, "volumes", volume["name"])
            use = "" if volume["persistentVolumeClaim"].get("readOnly") else "mounted for writing"
            yield from claim_findings(context, name, where, use, "add `readOnly: true`")
        count = sum(pods_of.get(role, 1) for role in volumes)
        yield from sharing_findings(context, resolution, name, where, count)


def storage_classes(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """Of volumes that each pod has for itself, by the rules of the profile's claims; nothing where it lists no classes."""
    for role, pod in pods if context.cluster.storage_classes else ():
        for volume in pod.get("volumes") or []:
            claim = at(volume, _CLAIM_OF_A_POD) or {}
            if name := claim.get("storageClassName"):
                where = overridden_at(context, role, "volumes", volume["name"], f"{_CLAIM_OF_A_POD}/storageClassName")
                yield from class_findings(context.cluster, name, claim.get("accessModes") or [], where)


_CLAIM_OF_A_POD = "/ephemeral/volumeClaimTemplate/spec"


def ends_with_the_run(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """A Job is complete when every ordinary container has ended; a native sidecar is ended by the kubelet."""
    stated = {one.container.name: one.container for one in all_stated(resolution)}
    for role, pod in pods:
        for container in pod["containers"][1:]:
            name = container.get("name")
            if name in stated and stated[name].ends_itself:
                continue
            message = f"container {name} would keep the pod alive after training"
            fix = _STATED_BESIDE if name in stated else _ADDED_BESIDE
            yield found("TW607", overridden_at(context, role, "containers", name), message, fix)


_STATED_BESIDE = "write kind: sidecar, which Kubernetes ends with the run; or add ends_itself: true, if it ends by itself"
_ADDED_BESIDE = ("write it under `containers` of the run: with kind: sidecar, which Kubernetes ends with the run; or, if it ends "
                 "by itself, with kind: beside and ends_itself: true")


def has_resources(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """Requests must equal limits in every container: what is not requested is taken from the ranks."""
    for role, pod in pods:
        for field, container in added_containers(role, pod, resolution):
            if problem := _amounts_problem(container):
                yield found(
                    "TW606",
                    overridden_at(context, role, field, container.get("name"), "/resources"),
                    f"container {container.get('name')} {problem}",
                    "add resources, the same in requests and limits: {requests: {cpu: 100m, memory: 128Mi}, limits: …}",
                )


def _amounts_problem(container: Tree) -> str | None:
    """What is wrong with the CPUs and the memory that a container states."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for key in ("cpu", "memory"):
        if key not in limits:
            return f"has no {key} limit"
        try:
            if _amount(key, requests.get(key, limits[key])) != _amount(key, limits[key]):
                return f"requests {requests[key]} {key} and has a limit of {limits[key]}: the pod could be evicted first"
        except UnitError as error:
            return f"has amounts that cannot be read: {error}"
    return None


def _amount(key: str, value: object) -> int:
    return Cpu.parse(value).millicores if key == "cpu" else Bytes.parse(value).bytes


_ACCELERATOR = re.compile(r"gpu|/mig-|/vgpu|tpu|npu|hpu|gaudi|neuron|rdma|efa|/hca", re.IGNORECASE)
"""In names of extended resources: what device plugins call accelerators and network adapters."""


def devices(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """GPUs and RDMA devices that the plan does not count, of whatever name."""
    own = {name for role in resolution.binding.roles for name in (amount.name for amount in resolution.amounts(role))}
    pools = resolution.cluster.node_pools.values()
    known = {name for pool in pools for name in (pool.gpu.resource if pool.gpu else None, pool.fabric.resource) if name}
    for role, pod in pods:
        added = [container for _, container in added_containers(role, pod, resolution)]
        for field, container in containers_of(pod):
            resources = container.get("resources") or {}
            asked = {*(resources.get("limits") or {}), *(resources.get("requests") or {})}
            free = set() if any(container is one for one in added) else own
            for device in sorted(name for name in asked - free if name in known or ("/" in name and _ACCELERATOR.search(name))):
                message = f"container {container.get('name')} asks for {device}, which the plan does not count"
                where = overridden_at(context, role, field, container.get("name"), "/resources")
                yield found("TW601", where, message, "remove it: the plan decides GPUs and RDMA devices of a pod")


def _planned_ports(resolution: Resolution, role: str | None) -> list[int]:
    """What the main container of a role listens on."""
    process = resolution.processes.get(role or "")
    return [port.number for port in process.ports] if process else []


def ports_are_free(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """Containers of one pod share its address."""
    for role, pod in pods:
        planned = _planned_ports(resolution, role)
        for field, container in added_containers(role, pod, resolution):
            for number, port in enumerate(container.get("ports") or []):
                if port.get("containerPort") in planned:
                    yield found(
                        "TW601",
                        overridden_at(context, role, field, container.get("name"), f"/ports/{number}"),
                        f"container {container.get('name')} listens on {port['containerPort']}, a port of the plan",
                        f"use a port other than {', '.join(map(str, planned))}",
                    )


def host_network(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """On the node's network names need another DNS policy, and ports are the node's."""
    for role, pod in pods:
        policy = pod.get("dnsPolicy", "ClusterFirst")
        if not pod.get("hostNetwork"):
            if policy not in ("ClusterFirst", "ClusterFirstWithHostNet"):
                yield found(
                    "TW605",
                    overridden_at(context, role, "dnsPolicy"),
                    f"with dnsPolicy {policy} pods cannot find each other by name",
                    "remove dnsPolicy, or write ClusterFirst; use dnsConfig for more name servers",
                )
            continue
        where = overridden_at(context, role, "hostNetwork")
        if policy != "ClusterFirstWithHostNet":
            yield found(
                "TW605",
                where,
                "on the node's network pods cannot find each other by name",
                "add dnsPolicy: ClusterFirstWithHostNet",
            )
        gpu, needed = resolution.pool.gpu, resolution.needs.gpus_per_node
        if not context.run.host_network and (gpu is None or needed < gpu.per_node):  # else the run has ports of its own
            ports = ", ".join(map(str, _planned_ports(resolution, role)))
            yield found(
                "TW605",
                where,
                f"two pods on one node would want the same ports of it, {ports}",
                "raise topology.gpus_per_node to take whole nodes, so that no other run can be there; or remove hostNetwork",
            )


def security(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """What the namespace's pod security standard refuses: the Job would be there, and never have a pod."""
    namespace = context.cluster.namespaces.get(context.run.namespace)
    if namespace is None:
        return
    for role, pod in pods:
        for field, name, problem in dict.fromkeys(violations(pod, namespace.pod_security, context.cluster.kubernetes)):
            yield found(
                "TW604",
                overridden_at(context, role, field, name, _written_at(field, problem)),
                f"pod security {namespace.pod_security} refuses {problem}",
                f"{_allowed(problem)}, or use a namespace of a lower level than {namespace.pod_security}",
            )


_RIGHTS = {
    "privileged": "/privileged", "capability": "/capabilities", "procMount": "/procMount", "seccomp": "/seccompProfile",
    "AppArmor": "/appArmorProfile", "SELinux": "/seLinuxOptions", "hostProcess": "/windowsOptions", "user": "/runAsUser",
}
"""How a problem of a container begins -> the field of its ``securityContext``."""


def _written_at(field: str, problem: str) -> str:
    """The field of a container, or of a volume, that is as Kubernetes writes it."""
    first = problem.partition(" ")[0]
    if field == "volumes":
        return f"/{first}"
    return "/ports" if first == "hostPort" else "" if first == "the" else f"/securityContext{_RIGHTS.get(first, '')}"


def _allowed(problem: str) -> str:
    """What a level wants: something gone, or a setting that is missing."""
    missing = problem.partition(" without ")[2].replace("a seccomp profile", "seccompProfile: {type: RuntimeDefault}")
    return f"add `{missing}` to its securityContext" if missing else "remove it"


def images(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """The images of added containers and of volumes, by the rules of the run's own."""
    for role, pod in pods:
        for field, container in added_containers(role, pod, resolution):
            where = overridden_at(context, role, field, container.get("name"), "/image")
            yield from image_findings(str(container.get("image", "")), context.cluster, where)
        for name, reference in image_volumes(pod):
            where = overridden_at(context, role, "volumes", name)
            yield from image_findings(reference, context.cluster, where)
            yield from _image_volume_findings(context, where)


def _image_volume_findings(context: Context, where: Where) -> Iterator[Finding]:
    """The API server has the field from 1.31 on, and drops it until the feature is on, which it is by default from 1.35 on."""
    version = context.cluster.kubernetes
    minor = int(version.split(".")[1])
    if minor < 31:
        yield found("TW307", where, f"Kubernetes {version} has no volumes of images", "remove it, or upgrade to 1.35 or newer")
    elif minor < 35:
        message = f"Kubernetes {version} mounts images only where the feature gate ImageVolume is on"
        yield found("TW462", where, message, "waive this where it is on, in API server and kubelets; or upgrade to 1.35 or newer")


def variables(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """Variables that overrides and added containers set, by the rules of the run's own."""
    for role, pod in pods:
        for field, container in containers_of(pod):
            planned = {variable.name for variable in resolution.plan.environment} if container is pod["containers"][0] else set()
            added: dict[str, str | None] = {}
            places: dict[str, Where] = {}
            for number, entry in enumerate(container.get("env") or []):
                name = str(entry.get("name"))
                if name not in planned:
                    added[name] = entry.get("value")
                    places[name] = overridden_at(context, role, field, container.get("name"), f"/env/{number}")
                    # one that a later one of the same name replaces is committed too
                    yield from secret_findings({name: added[name]}, places.__getitem__, _REFERENCE)
            yield from variable_findings(added, places.__getitem__)


_REFERENCE = "write `valueFrom: {secretKeyRef: {name: NAME, key: KEY}}` in place of value"


CHANGED_PODS = (
    is_consistent, mounts, claims, storage_classes, writes_once, ends_with_the_run, has_resources, devices, ports_are_free,
    host_network, security, images, variables,
)
