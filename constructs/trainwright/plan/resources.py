"""What pods ask of their nodes: the amounts that a plan counts with, and those that each role's pods state."""

from __future__ import annotations

from typing import NamedTuple

from trainwright.cluster import NodePool
from trainwright.findings.locate import escape
from trainwright.handshake import Binding, Needs, Role, Share
from trainwright.plan.model import AmountPlan, ResourcesPlan
from trainwright.run import Resources, Run
from trainwright.run.resources import NONE
from trainwright.units import GIB, Bytes, Cpu

NODE_SHARE = 0.9
"""Share of a node that pods can have; the rest is the kubelet's and the daemons'."""


class Counted(NamedTuple):
    """What a run states of its CPUs and memory, as a plan counts with it: the limits, or what is requested without one."""

    cpu: Cpu | None
    memory: Bytes | None


def asked_of(resources: Resources) -> Counted:
    """None where a run leaves the amount to the plan, or states none at all."""
    cpu, memory, requests = resources.cpu, resources.memory, resources.requests
    return Counted(
        cpu if isinstance(cpu, Cpu) else requests.cpu if cpu == NONE else None,
        memory if isinstance(memory, Bytes) else requests.memory if memory == NONE else None,
    )


def plan_resources(run: Run, pool: NodePool, needs: Needs, role: str | None = None) -> ResourcesPlan:
    """CPU, memory and shared memory of one pod that holds ranks; of ``role``, if the run states something of it.

    Default on GPUs: the pod's share of the node's GPUs, of 90 % of its CPUs and memory. Default on CPUs: one CPU and 2Gi for each
    process. Shared memory counts against the memory limit, because a memory-backed emptyDir is charged to the pod.
    """
    if needs.gpus_per_node and pool.gpu:
        cpu, memory = node_share(pool, needs.gpus_per_node)
        why = f"{needs.gpus_per_node} of {pool.gpu.per_node} GPUs: that share of 90 % of a node"
        shm, shm_reason = (
            Bytes(2 * GIB * needs.gpus_per_node),
            "2Gi a rank: NCCL and data loaders; the runtime's 64Mi is too small",
        )
    else:
        cpu, memory = Cpu(1000 * needs.processes_per_node), Bytes(2 * GIB * needs.processes_per_node)
        why = "one CPU and 2Gi a process"
        shm, shm_reason = Bytes(GIB // 4), "data loaders; gloo uses none"
    asked = _together(run, role)
    counted = asked_of(asked)
    if counted.memory and not asked.shared_memory and shm.bytes >= counted.memory.bytes:
        shm, shm_reason = Bytes(max(1, counted.memory.bytes // 2)), f"half of the memory: {shm} would be all of it, or more"
    return ResourcesPlan(
        cpu=counted.cpu or cpu,
        cpu_reason="as asked" if counted.cpu else why,
        memory=counted.memory or memory,
        memory_reason="as asked" if counted.memory else why,
        shm=asked.shared_memory or shm,
        shm_reason="as asked" if asked.shared_memory else shm_reason,
    )


def node_share(pool: NodePool, gpus: int) -> tuple[Cpu, Bytes]:
    """The share of a node's CPUs and memory that goes with so many of its GPUs: whole CPUs and GiB, one of each at least."""
    share = gpus / pool.gpu.per_node * NODE_SHARE if pool.gpu else NODE_SHARE
    cpu = Cpu(max(1000, int(pool.cpus.millicores * share) // 1000 * 1000))
    return cpu, Bytes(max(GIB, int(pool.memory.bytes * share) // GIB * GIB))


def _together(run: Run, role: str | None) -> Resources:
    """What a run states of its pods, with what it states of one role in front."""
    parts = run.roles.get(role or "")
    if parts is None:
        return run.resources
    return run.resources.model_copy(update={name: getattr(parts.resources, name) for name in parts.resources.model_fields_set})


def with_stated_shares(binding: Binding, run: Run) -> Binding:
    """The binding with what a run states of the pods that hold no ranks."""
    return binding._replace(roles=tuple(_stated(role, run) for role in binding.roles))


def _stated(role: Role, run: Run) -> Role:
    parts = run.roles.get(role.name)
    if parts and parts.container:
        role = role._replace(container=parts.container)
    if role.share is None or parts is None:
        return role
    asked, share = asked_of(parts.resources), role.share
    if asked == Counted(None, None):
        return role
    return role._replace(share=Share(asked.cpu or share.cpu, asked.memory or share.memory, share.reason))


def uses_rdma(needs: Needs, pool: NodePool) -> bool:
    """Whether pods ask for RDMA devices: several GPU nodes on a fabric that offers them."""
    return bool(needs.spans_gpu_nodes and pool.fabric.resource)


def plan_amounts(
    run: Run, role: Role, needs: Needs, pool: NodePool, pool_name: str, planned: ResourcesPlan
) -> tuple[AmountPlan, ...]:
    """What the main container of a role's pods asks for, in the order of a manifest."""
    layers = [(f"run:/roles/{role.name}/resources", run.roles[role.name].resources)] if role.name in run.roles else []
    layers += [] if role.share else [("run:/resources", run.resources)]
    if role.share:
        share = role.share
        cpu, memory = ("trainwright", str(share.cpu), share.reason), ("trainwright", str(share.memory), share.reason)
    else:
        cpu = ("run:/resources/cpu", str(planned.cpu), planned.cpu_reason)
        memory = ("run:/resources/memory", str(planned.memory), planned.memory_reason)
    return (
        *_limited("cpu", layers, cpu),
        *_limited("memory", layers, memory),
        *_further(layers),
        *_devices(role, needs, pool, pool_name, layers, run.roles[role.name].gpus if role.name in run.roles else 0),
    )


Layers = list[tuple[str, Resources]]
"""From the nearest statement to the widest: a pointer, and what is stated there."""


def _limited(name: str, layers: Layers, default: tuple[str, str, str]) -> tuple[AmountPlan, ...]:
    """The limit, and the request where it is another one; nothing where both are stated away."""
    (source, limit, reason), asked = default, None
    for at, one in layers:
        if asked is None and (request := getattr(one.requests, name)):
            asked = (f"{at}/requests/{name}", str(request))
        if (stated := getattr(one, name)) is not None:
            source, limit, reason = f"{at}/{name}", str(stated), "as asked"
            break  # a limit that is stated nearer takes no request from further away
    if limit == NONE:
        return (AmountPlan(name, asked[1], None, asked[0], "as asked, without a limit"),) if asked else ()
    if asked and _read(name, asked[1]) > _read(name, limit):
        return (AmountPlan(name, asked[1], asked[1], asked[0], "as requested, which is more than the default"),)
    if asked:
        return (AmountPlan(name, asked[1], limit, source, reason, asked[0]),)
    return (AmountPlan(name, limit, limit, source, reason),)


_DISK = "ephemeral-storage"


def _read(name: str, amount: str) -> int:
    return Cpu.parse(amount).millicores if name == "cpu" else Bytes.parse(amount).bytes


def _further(layers: Layers) -> tuple[AmountPlan, ...]:
    """Disk and huge pages, where they are stated."""
    found: dict[str, AmountPlan] = {}
    for at, one in layers:
        if one.ephemeral_storage:
            disk = str(one.ephemeral_storage)
            found.setdefault(_DISK, AmountPlan(_DISK, disk, disk, f"{at}/ephemeral_storage", "as asked"))
        for size, memory in sorted(one.hugepages.items()):
            name = f"hugepages-{size}"
            found.setdefault(name, AmountPlan(name, str(memory), str(memory), f"{at}/hugepages/{size}", "as asked"))
    return tuple(found.values())


def _devices(
    role: Role, needs: Needs, pool: NodePool, pool_name: str, layers: Layers, gpus: int
) -> tuple[AmountPlan, ...]:
    """GPUs, then RDMA devices and others; what the run states of a device replaces the share of the pool."""
    found: dict[str, AmountPlan] = {}
    if needs.gpus_per_node and pool.gpu and not role.share:
        name, source = pool.gpu.resource, "run:/topology/gpus_per_node"
        found[name] = _device(name, needs.gpus_per_node, source, "GPUs of one node")
    if role.further and gpus and pool.gpu:
        found[pool.gpu.resource] = _device(pool.gpu.resource, gpus, f"run:/roles/{role.name}/gpus", "GPUs of one pod")
    if uses_rdma(needs, pool) and not role.share:
        name = str(pool.fabric.resource)
        source = f"cluster:/node_pools/{escape(pool_name)}/fabric/resource"
        found[name] = _device(name, _rdma_share(needs, pool), source, "the pod's RDMA devices")
    for at, one in reversed(layers):
        for name, count in sorted(one.devices.items()):
            found[name] = _device(name, count, f"{at}/devices/{escape(name)}", "as asked")
    return tuple(amount for amount in found.values() if amount.limit != "0")


def _device(name: str, count: int, source: str, reason: str) -> AmountPlan:
    return AmountPlan(name, str(count), str(count), source, reason)


def _rdma_share(needs: Needs, pool: NodePool) -> int:
    """The pod's share of a node's devices, so that other pods of the node get theirs; one where a device can be shared."""
    share = needs.gpus_per_node / pool.gpu.per_node if pool.gpu else 1
    return max(1, int(pool.fabric.resource_count * share))
