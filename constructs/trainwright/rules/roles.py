"""Rules on what a run states of its roles, and on what their pods ask of a node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.overrides.owned import owners_of
from trainwright.plan import Resolution
from trainwright.rules.cluster import image_findings
from trainwright.rules.environment import secret_findings, variable_findings
from trainwright.units import Bytes


def roles_are_there(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Roles are those of the target, which may have fewer of them for this topology."""
    known = [role.name for role in resolution.binding.roles]
    for name in context.run.roles:
        if name not in known:
            message = f"{resolution.plan.target_title} has no role {name} for this run"
            yield found("TW327", context.locate.run(f"/roles/{escape(name)}"), message, f"use one of: {', '.join(known)}")


def operator_starts(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Where the operator starts a program of its own in every pod, no pod has room for another."""
    if not resolution.binding.replaces_command:
        return
    for name, parts in context.run.roles.items():
        for field in ("command", "args"):
            if getattr(parts, field):
                message = f"{resolution.plan.target_title} starts a program of its own in every pod, and the work on the head"
                where = context.locate.run(f"/roles/{escape(name)}/{field}")
                yield found("TW424", where, message, f"remove it, and write the work under workload.{field}")


def images(context: Context) -> Iterator[Finding]:
    """By the rules of the run's own image."""
    for name, parts in context.run.roles.items():
        if parts.image:
            yield from image_findings(parts.image, context.cluster, context.locate.run(f"/roles/{escape(name)}/image"))


def secrets(context: Context) -> Iterator[Finding]:
    """By the rules of the run's own variables."""
    for name, parts in context.run.roles.items():
        yield from secret_findings(parts.env, partial(_variable_at, context, name))


def variables(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Names that are not the run's to set, and what the catalogue says of the others."""
    for name, parts in context.run.roles.items():
        owners, where = owners_of(parts.env, resolution), partial(_variable_at, context, name)
        fix = f"remove it; `trainwright plan {context.run.run} --json` shows what is set, and why"
        for variable, owner in owners.items():
            yield found("TW403", where(variable), owner, fix)
        yield from variable_findings({key: value for key, value in parts.env.items() if key not in owners}, where)


def _variable_at(context: Context, role: str, variable: str) -> Where:
    return context.locate.run(f"/roles/{escape(role)}/env/{variable}")


def devices(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """GPUs have a field of their own, and of RDMA devices a node has no more than its pool says."""
    gpu, fabric, pool = resolution.pool.gpu, resolution.pool.fabric, resolution.plan.world.pool
    roles = context.run.roles.items()
    stated = [("", context.run.resources), *((f"/roles/{escape(name)}", one.resources) for name, one in roles)]
    for at, resources in stated:
        for device, count in resources.devices.items():
            where = context.locate.run(f"{at}/resources/devices/{escape(device)}")
            if gpu and device == gpu.resource:
                message = f"{device} is what the pool calls its GPUs, and topology.gpus_per_node counts them"
                yield found("TW326", where, message, "remove it, and change topology.gpus_per_node")
            elif device == fabric.resource and count > fabric.resource_count:
                message = f"a pod asks for {count} {device}, and a node of {pool} has {fabric.resource_count}"
                yield found("TW308", where, message, "lower it, or correct fabric.resource_count of the pool")


def memory_is_reserved(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Memory that a pod may use and that nobody keeps free for it."""
    for role in resolution.binding.roles:
        memory = next((one for one in resolution.amounts(role) if one.name == "memory"), None)
        if memory and memory.limit and Bytes.parse(memory.limit).bytes <= Bytes.parse(memory.request).bytes:
            continue
        limit = f"may use {memory.limit}" if memory and memory.limit else "may use all of its node's memory"
        kept = f"{memory.request} is reserved" if memory else "nothing is reserved"
        own = context.run.roles.get(role.name)
        at = f"/roles/{role.name}/resources" if own and (own.resources.memory or own.resources.requests.memory) else "/resources"
        message = f"a pod of role {role.name} {limit}, and {kept}"
        fix = "remove requests.memory, and state a limit; or waive this where the nodes have nothing else to run"
        yield found("TW325", context.locate.run(f"{at}/{'requests' if memory and memory.limit else 'memory'}"), message, fix)


RUN = (images, secrets)
PLAN = (roles_are_there, operator_starts, variables, devices, memory_is_reserved)
