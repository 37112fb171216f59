"""Rules on what a run states of its roles, and on what their pods ask of a node."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.cluster import NodePool
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.overrides.owned import owners_of
from trainwright.plan import Resolution
from trainwright.run.roles import ALL
from trainwright.units import Bytes


def roles_are_there(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Roles are those of the target, which may have fewer of them for this topology."""
    known = [role.name for role in resolution.binding.roles]
    for name in context.run.roles:
        if name not in known and name != ALL:
            message = f"{resolution.plan.target_title} has no role {name} for this run"
            fix = f"use one of: {', '.join(known)}; or add `pods` for a further role, if the target supports them"
            yield found("TW327", context.locate.run(f"/roles/{escape(name)}"), message, fix)


def roles_go_to_pools(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """All pods with ranks go to one pool, which the run names; of another one nothing is planned."""
    for role in resolution.binding.roles:
        parts = context.run.roles.get(role.name)
        if role.holds_ranks and parts and parts.node_pool and parts.node_pool != resolution.plan.world.pool:
            message = f"pods of role {role.name} hold ranks, which are all in pool {resolution.plan.world.pool}"
            where = context.locate.run(f"/roles/{escape(role.name)}/node_pool")
            yield found("TW329", where, message, "remove it, and write node_pool of the run")


def further_roles_run_something(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The image of the run is there for its ranks; what else its entrypoint does, nobody knows."""
    for role in resolution.binding.roles:
        parts = context.run.roles.get(role.name)
        if role.further and parts and not (parts.command or parts.args or parts.image or resolution.binding.replaces_command):
            message = f"nothing says what the pods of role {role.name} run"
            fix = "add command; or image, for the entrypoint of another image"
            yield found("TW330", context.locate.run(f"/roles/{escape(role.name)}"), message, fix)


def order_of_start(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A gang counts pods that are not made before others are ready, and starts none of them (volcano #1959)."""
    if resolution.plan.gang is None:
        return
    for role in resolution.binding.roles:
        if role.further and role.further.starts != "with":
            message = f"a gang starts all pods at once, but role {role.name} starts {role.further.starts} the pods with ranks"
            fix = "remove starts, and let the program wait for its peers; or write `gang: false`"
            yield found("TW441", context.locate.run(f"/roles/{escape(role.name)}/starts"), message, fix)


def variables(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Names that are not the run's to set."""
    fix = f"remove it; `trainwright plan {context.run.run} --json` shows what is set, and why"
    for role in resolution.binding.roles:
        parts = context.run.roles.get(role.name)
        for variable, owner in owners_of(parts.env, resolution, role).items() if parts else ():
            yield found("TW403", context.locate.run(f"/roles/{escape(role.name)}/env/{variable}"), owner, fix)


def devices(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """GPUs have a field of their own, and of RDMA devices a node has no more than its pool says."""
    binding, roles = resolution.binding, {role.name: role for role in resolution.binding.roles}
    pools = context.cluster.node_pools.values()
    gpus, adapters = {pool.gpu.resource for pool in pools if pool.gpu}, {pool.fabric.resource for pool in pools}
    stated = [("", context.run.resources, binding.ranks)]
    stated += [(f"/roles/{escape(name)}", one.resources, roles[name]) for name, one in context.run.roles.items() if name in roles]
    for at, resources, role in stated:
        pool, offered = resolution.pool_of(role)
        for device, count in resources.devices.items():
            where = context.locate.run(f"{at}/resources/devices/{escape(device)}")
            if device in gpus:
                whose = "the pool" if offered.gpu else "another pool"
                counted = f"{role.gpus_field} counts them" if role.gpus_field else f"a pod of role {role.name} holds no ranks"
                fix = f"remove it, and {role.gpus_fix}" if role.gpus_field else role.gpus_fix
                yield found("TW326", where, f"{device} is what {whose} calls its GPUs, and {counted}", fix)
            elif device in adapters and count > (there := _adapters(offered, device)):
                message = f"a pod asks for {count} {device}, and a node of {pool} has {there}"
                yield found("TW308", where, message, "lower it, or correct fabric.resource_count of the pool")


def _adapters(pool: NodePool, device: str) -> int:
    return pool.fabric.resource_count if device == pool.fabric.resource else 0


def memory_is_reserved(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Memory that a pod may use and that nobody keeps free for it."""
    for role in resolution.binding.roles:
        memory = next((one for one in resolution.amounts[role.name] if one.name == "memory"), None)
        if memory and memory.limit and Bytes.parse(memory.limit).bytes <= Bytes.parse(memory.request).bytes:
            continue
        limit = f"may use {memory.limit}" if memory and memory.limit else "may use all of its node's memory"
        kept = f"{memory.request} is reserved" if memory else "nothing is reserved"
        own = context.run.roles.get(role.name)
        at = f"/roles/{role.name}/resources" if own and (own.resources.memory or own.resources.requests.memory) else "/resources"
        message = f"a pod of role {role.name} {limit}, and {kept}"
        reserve = "remove requests.memory" if memory and memory.limit else "write an amount in place of `memory: none`"
        fix = f"{reserve}; or waive this where the nodes have nothing else to run"
        yield found("TW325", context.locate.run(f"{at}/{'requests' if memory and memory.limit else 'memory'}"), message, fix)


PLAN = (
    roles_are_there, roles_go_to_pools, further_roles_run_something, order_of_start, variables, devices,
    memory_is_reserved,
)  # fmt: skip
