"""Rules on what pods ask for, against what a node can give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import dotted, tokens
from trainwright.handshake import Role
from trainwright.manifest.pods import containers_of
from trainwright.manifest.template.containers import containers_of_role
from trainwright.manifest.template.volumes import shared_memory
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.plan.resources import NODE_SHARE
from trainwright.rules.pods.pod import amount_of
from trainwright.run import KubernetesContainer, ScratchMount
from trainwright.units import GIB, Bytes, UnitError

Tree = dict[str, Any]


class Amount(NamedTuple):
    """What a pod or a container asks for: CPUs in thousandths, and bytes of memory."""

    cpu: int
    memory: int

    def __add__(self, other: Amount) -> Amount:  # type: ignore[override]
        return Amount(self.cpu + other.cpu, self.memory + other.memory)

    def most(self, other: Amount) -> Amount:
        return Amount(max(self.cpu, other.cpu), max(self.memory, other.memory))


NOTHING = Amount(0, 0)


def pods_fit_nodes(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """What the scheduler keeps free for the pods of each role, those without ranks too, with all of their containers."""
    roles, ranks = {role.name: role for role in resolution.binding.roles}, resolution.binding.ranks
    of_roles = {pod.role: pod for pod in pods if pod.role in roles}
    for name, pod in of_roles.items():
        role, main, whole = roles[str(name)], _main(pod), asked_by(pod.found.spec)
        who, fix = ("a pod", "") if role is ranks else (f"the {role.name}'s pod", _OTHER_POOL.format(role=role.name))
        requests = "/containers/0/resources/requests"
        places = {key: pod.where(context.locate, f"{requests}/{key}", "/node_pool") for key in Amount._fields}
        alone = list(_too_large(resolution, role, who, main, places, fix))
        if role is ranks or role.share is not None or main != _main(of_roles[ranks.name]):
            yield from alone
        if whole != main and not alone:
            beside = [(pointer, amount(one)) for pointer, one in containers_of(pod.found.spec)][1:]
            largest = {key: max(beside, key=lambda one: getattr(one[1], key))[0] for key in Amount._fields}
            places = {key: pod.where(context.locate, f"{at}/resources/limits/{key}") for key, at in largest.items()}
            who, fix = f"with its other containers a pod of role {name}", "lower resources, or those of the other containers"
            yield from _too_large(resolution, role, who, whole, places, fix)


def _main(pod: RunPod) -> Amount:
    return amount(pod.found.spec["containers"][0])


_OTHER_POOL = "use a node pool with larger nodes, or state less in roles.{role}.resources"


def shared_memory_fits(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What is written to shared memory counts against the limit of its pod, and is memory of its node."""
    yield from dict.fromkeys(one for role in resolution.binding.roles for one in _shared_memory_of(context, resolution, role))


def _shared_memory_of(context: Context, resolution: Resolution, role: Role) -> Iterator[Finding]:
    memory, (name, pool) = shared_memory(resolution, role), resolution.pool_of(role)
    if memory is None:
        return
    amount = next((one for one in resolution.amounts[role.name] if one.name == "memory"), None)
    where = context.locate.run(memory.source.removeprefix("run:") if memory.source.startswith("run:") else "/resources/memory")
    if amount and amount.limit and Bytes.parse(memory.value) >= Bytes.parse(amount.limit):
        whose = "the pod's memory of" if role is resolution.binding.ranks else f"the memory of a pod of role {role.name},"
        message = f"shared memory of {memory.value} counts against {whose} {amount.limit}: a pod that fills it is killed"
        more = dotted(tokens(amount.source.removeprefix("run:"))) if amount.source.startswith("run:") else "resources.memory"
        yield found("TW308", where, message, f"lower it, or raise {more}")
    elif Bytes.parse(memory.value) >= pool.memory:
        message = f"a node of {name} has {pool.memory}, and shared memory of {memory.value} cannot be in it"
        yield found("TW308", where, message, "lower it, or use another node pool")


def scratch_fits(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What is written to scratch counts against the ephemeral storage of its pod (kubernetes, pkg/kubelet/eviction,
    podEphemeralStorageLimitEviction), of which a container as Kubernetes writes it may bring more.
    """
    yield from dict.fromkeys(one for role in resolution.binding.roles for one in _scratch_of(context, resolution, role))


def _scratch_of(context: Context, resolution: Resolution, role: Role) -> Iterator[Finding]:
    amount = next((one for one in resolution.amounts[role.name] if one.name == "ephemeral-storage"), None)
    written = any(isinstance(one.container, KubernetesContainer) for one in containers_of_role(resolution, role))
    if amount is None or amount.limit is None or written:
        return
    for mount, source in resolution.mounts[role.name].values():
        if isinstance(mount, ScratchMount) and mount.scratch > Bytes.parse(amount.limit):
            more = dotted(tokens(amount.source.removeprefix("run:")))
            message = f"scratch of {mount.scratch} counts against the pod's ephemeral storage of {amount.limit}"
            where = context.locate.at(source)
            yield found("TW308", where, f"{message}: a pod that fills it is evicted", f"lower it, or raise {more}")


def huge_pages_fit(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Huge pages are memory that a node keeps apart, so pods ask for them beside other memory, and never for them alone
    (pkg/apis/core/validation, ValidateContainerResourceRequirements).
    """
    yield from dict.fromkeys(one for role in resolution.binding.roles for one in _huge_pages_of(context, resolution, role))


def _huge_pages_of(context: Context, resolution: Resolution, role: Role) -> Iterator[Finding]:
    amounts, (name, pool) = resolution.amounts[role.name], resolution.pool_of(role)
    pages = [one for one in amounts if one.name.startswith("hugepages-")]
    if not pages:
        return
    where = context.locate.at(pages[0].source)
    if not any(one.name in ("cpu", "memory") for one in amounts):
        message = "the API server takes huge pages only beside CPU or memory, and neither is requested or limited"
        yield found("TW603", where, message, "add `requests: {memory: 1Gi}`, or remove `memory: none`")
    memory = sum(Bytes.parse(one.request).bytes for one in amounts if one.name == "memory")
    kept = sum(Bytes.parse(one.request).bytes for one in pages)
    if memory < pool.memory.bytes <= memory + kept:
        beside = f", beside {memory / GIB:.1f} GiB of memory" if memory else ""
        message = f"a pod asks for {kept / GIB:.1f} GiB of huge pages{beside}; a node of {name} has {pool.memory} in all"
        yield found("TW308", where, message, "lower hugepages or memory; or use another node pool")


def _too_large(
    resolution: Resolution, role: Role, who: str, asked: Amount, places: dict[str, Where], fix: str
) -> Iterator[Finding]:
    """Of a whole node the kubelet keeps a part back (kubernetes.io, Reserve Compute Resources), and the pods of daemons ask for
    some of the rest: a pod that asks for all of it fits no node.
    """
    name, pool = resolution.pool_of(role)
    share = f"{NODE_SHARE:.0%}"
    cpus, memory = int(pool.cpus.millicores * NODE_SHARE) / 1000, int(pool.memory.bytes * NODE_SHARE / GIB)
    if asked.cpu >= pool.cpus.millicores:
        message = f"{who} asks for {asked.cpu / 1000:g} CPU; a node of {name} has {pool.cpus}, some kept for the system"
        advice = fix or f"lower resources.cpu, to {cpus:g} at most to be safe ({share} of a node); or use another node pool"
        yield found("TW308", places["cpu"], message, advice)
    if asked.memory >= pool.memory.bytes:
        message = f"{who} asks for {asked.memory / GIB:.1f} GiB; a node of {name} has {pool.memory}, some kept for the system"
        advice = fix or f"lower resources.memory, to {memory}Gi at most to be safe ({share} of a node); or use another node pool"
        yield found("TW308", places["memory"], message, advice)


def asked_by(pod: Tree) -> Amount:
    """What the scheduler reserves for a pod: all of its containers and sidecars, or an init container beside the sidecars that
    started before it, whichever is more (KEP-753).
    """
    sidecars, starting = NOTHING, NOTHING
    for container in pod.get("initContainers") or []:
        asked, stays = amount(container), container.get("restartPolicy") == "Always"
        sidecars += asked if stays else NOTHING
        starting = starting.most(sidecars if stays else sidecars + asked)
    return sum((amount(container) for container in pod.get("containers") or []), sidecars).most(starting)


def amount(container: Tree) -> Amount:
    """What a container asks for; nothing where it does not say, or where nobody can read it."""
    resources = container.get("resources") or {}
    stated = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Amount(_read("cpu", stated), _read("memory", stated))


def _read(key: str, stated: Tree) -> int:
    try:
        return amount_of(key, stated[key])
    except (KeyError, UnitError):
        return 0


PLAN = (shared_memory_fits, scratch_fits, huge_pages_fit)
PODS = (pods_fit_nodes,)
