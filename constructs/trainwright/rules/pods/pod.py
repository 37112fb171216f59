"""Rules on what is beside the plan in the finished pods: containers, devices, ports and networks that the plan does not count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trainwright.findings import Finding, Severity
from trainwright.findings.codes import CODES, found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.manifest.pods import containers_of
from trainwright.manifest.template.containers import all_stated
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.run import EphemeralMount, HostPathMount, ImageMount, KubernetesMount, NfsMount
from trainwright.units import Bytes, Cpu, UnitError

Tree = dict[str, Any]
Pods = Sequence[RunPod]


def added_containers(pod: RunPod, resolution: Resolution) -> list[tuple[str, Tree]]:
    """All containers but those of the plan, each with its pointer in the pod's spec."""
    if pod.is_the_runtimes:
        return []
    own = {"/containers/0", *(["/initContainers/0"] if resolution.plan.data else ())} if pod.role else set()
    return [(pointer, container) for pointer, container in containers_of(pod.found.spec) if pointer not in own]


_FROM_ELSEWHERE = (EphemeralMount, HostPathMount, NfsMount, ImageMount, KubernetesMount)
"""Mounts whose words the API refuses in some values."""


def is_consistent(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """What a schema does not see, and the API server, the kubelet or the container runtime refuses."""
    run, pools = context.run, [pool.pods for pool in resolution.node_pools]
    brought = run.overrides.pod or run.overrides.objects or run.containers or any(one.containers or one.mounts for one in pools)
    mounts = (mount for role in resolution.binding.roles for mount, _ in resolution.mounts[role.name].values())
    if not brought and not any(isinstance(mount, _FROM_ELSEWHERE) for mount in mounts):
        return  # all is the compiler's own, and what follows takes its time to load
    from trainwright.validate.pods import reference_problems, template_problems

    for pod in pods:
        template = {"spec": pod.found.spec}
        for problem in (*template_problems(template), *reference_problems(template)):
            below = problem.pointer.removeprefix("/spec")
            if pod.source(below).startswith("cluster:/runtimes/"):
                continue  # such as a mount whose volume the JobSet of an installed runtime adds
            if CODES[problem.code].severity is Severity.ERROR:  # the rest is said of variables
                where = pod.where(context.locate, below)
                yield found("TW603", where, problem.message, problem.fix)


def ends_with_the_run(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """A Job is complete when every ordinary container has ended; a native sidecar is ended by the kubelet."""
    for pod in pods:
        for number, container in enumerate(pod.found.spec["containers"][1:], start=1):
            name = container.get("name")
            stated = next((one.container for one in all_stated(resolution) if one.container.name == name), None)
            if stated is None or not stated.ends_itself:
                message = f"container {name} would keep the pod alive after training"
                fix = _STATED_BESIDE if stated else _ADDED_BESIDE
                yield found("TW607", pod.where(context.locate, f"/containers/{number}"), message, fix)


_STATED_BESIDE = "write kind: sidecar, which Kubernetes ends with the run; or add ends_itself: true, if it ends by itself"
_ADDED_BESIDE = ("write it under `containers` of the run: with kind: sidecar, which Kubernetes ends with the run; or, if it ends "
                 "by itself, with kind: beside and ends_itself: true")


def has_resources(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """Requests must equal limits in every container: what is not requested is taken from the ranks."""
    for pod in pods:
        for pointer, container in added_containers(pod, resolution):
            if problem := _amounts_problem(container):
                where = pod.where(context.locate, f"{pointer}/resources")
                fix = "add resources, the same in requests and limits: {requests: {cpu: 100m, memory: 128Mi}, limits: …}"
                yield found("TW606", where, f"container {container.get('name')} {problem}", fix)


def _amounts_problem(container: Tree) -> str | None:
    """What is wrong with the CPUs and the memory that a container states."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for key in ("cpu", "memory"):
        if key not in limits:
            return f"has no {key} limit"
        try:
            if amount_of(key, requests.get(key, limits[key])) != amount_of(key, limits[key]):
                return f"requests {requests[key]} {key} and has a limit of {limits[key]}: the pod could be evicted first"
        except UnitError as error:
            return f"has amounts that cannot be read: {error}"
    return None


def amount_of(key: str, value: object) -> int:
    """Thousandths of a CPU, or bytes of memory.

    Raises:
        UnitError: where nobody can read it.
    """
    return Cpu.parse(value).millicores if key == "cpu" else Bytes.parse(value).bytes


_ACCELERATOR = re.compile(r"gpu|/mig-|/vgpu|tpu|npu|hpu|gaudi|neuron|rdma|efa|/hca", re.IGNORECASE)
"""In names of extended resources: what device plugins call accelerators and network adapters."""
_COUNTED = re.compile(r"run:/(topology|resources|roles)/|cluster:/node_pools/[^/]+/fabric/")
"""Sources of devices that a plan counts."""


def devices(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """GPUs and RDMA devices that the plan does not count, of whatever name."""
    pools = resolution.cluster.node_pools.values()
    known = {name for pool in pools for name in (pool.gpu.resource if pool.gpu else None, pool.fabric.resource) if name}
    for pod in pods:
        for pointer, container in containers_of(pod.found.spec):
            resources = container.get("resources") or {}
            asked = {name: field for field in ("requests", "limits") for name in resources.get(field) or ()}
            for device in sorted(name for name in asked if name in known or ("/" in name and _ACCELERATOR.search(name))):
                place = f"{pointer}/resources/{asked[device]}/{escape(device)}"
                if not _COUNTED.match(pod.source(place)):
                    message = f"container {container.get('name')} asks for {device}, which the plan does not count"
                    fix = "remove it: the plan decides GPUs and RDMA devices of a pod"
                    yield found("TW601", pod.where(context.locate, place), message, fix)


def _planned_ports(resolution: Resolution, role: str | None) -> list[int]:
    """What the main container of a role listens on."""
    process = resolution.processes.get(role or "")
    return [port.number for port in process.ports] if process else []


def ports_are_free(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """Containers of one pod share its address."""
    for pod in pods:
        planned = _planned_ports(resolution, pod.role)
        for pointer, container in added_containers(pod, resolution):
            for number, port in enumerate(container.get("ports") or []):
                if port.get("containerPort") in planned:
                    where = pod.where(context.locate, f"{pointer}/ports/{number}")
                    message = f"container {container.get('name')} listens on {port['containerPort']}, a port of the plan"
                    yield found("TW601", where, message, f"use a port other than {', '.join(map(str, planned))}")


def host_network(context: Context, resolution: Resolution, pods: Pods) -> Iterator[Finding]:
    """On the node's network names need another DNS policy, and ports are the node's."""
    for pod in pods:
        policy, on_node = pod.found.spec.get("dnsPolicy", "ClusterFirst"), pod.found.spec.get("hostNetwork")
        where = pod.where(context.locate, "/hostNetwork" if on_node else "/dnsPolicy")
        if not on_node and policy not in ("ClusterFirst", "ClusterFirstWithHostNet"):
            message = f"with dnsPolicy {policy} pods cannot find each other by name"
            yield found("TW605", where, message, "remove dnsPolicy, or write ClusterFirst; use dnsConfig for more name servers")
        if on_node and policy != "ClusterFirstWithHostNet":
            message = "on the node's network pods cannot find each other by name"
            yield found("TW605", where, message, "add dnsPolicy: ClusterFirstWithHostNet")
        gpu, needed = resolution.pool.gpu, resolution.needs.gpus_per_node
        # a run that asks for it has ports of its own
        if on_node and not context.run.host_network and (gpu is None or needed < gpu.per_node):
            ports = ", ".join(map(str, _planned_ports(resolution, pod.role)))
            message = f"two pods on one node would want the same ports of it, {ports}"
            fix = "raise topology.gpus_per_node to take whole nodes, so that no other run can be there; or remove hostNetwork"
            yield found("TW605", where, message, fix)


PODS = (ends_with_the_run, has_resources, devices, ports_are_free, host_network)
