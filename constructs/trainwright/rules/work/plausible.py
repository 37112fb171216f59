"""Rules on values that are legal and hardly meant: a slip of the pen in them costs a run, and nothing else would say so."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import at
from trainwright.handshake import Role
from trainwright.plan import Resolution
from trainwright.run import KubernetesMount, Mount, Resources, ScratchMount
from trainwright.units import Bytes, Cpu, Duration, UnitError
from trainwright_trainer.contract.training import AdamW

DIVERGES, ADAM_DIVERGES = 100.0, 0.1
"""Learning rates. Steps of AdamW are about as long as its rate, and weights are far below 1; SGD with large batches goes up to
about 30 (You et al. 2017, LARS)."""

SHORTEST_LIMIT = 10
"""Seconds: imports of torch alone take about as long."""

SMALLEST_SHARED_MEMORY = 64 * 2**20
"""What a container runtime gives without being asked."""

LEAST_MEMORY = 16 * 2**20
"""Bytes of a pod: an interpreter alone takes about as much."""

LEAST_CPU = 250
"""Millicores of a rank: its threads of NCCL, the loader and the step share them."""

MINUTE = 60
"""Seconds."""

SHORTEST_INTERVAL = 30
"""Seconds between saves."""

LARGEST_SCRATCH = 128 * 1024**4
"""Bytes; the largest GPU machines have about half of it in local disks."""


def rate(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A rate at which no known recipe trains."""
    work, planned = context.run.trainer, resolution.plan.learning_rate
    if work is None or planned is None:
        return
    most = ADAM_DIVERGES if isinstance(work.optimizer, AdamW) else DIVERGES
    if planned.peak >= most:
        message = f"the learning rate reaches {planned.peak:.1e}, and no known recipe with {work.optimizer.kind} reaches {most:g}"
        fix = "check its exponent (2e-5, not 2e5), and base_batch"
        yield found("TW216", context.locate.run("/learning_rate/base"), message, fix)


def limits(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Limits of the watchdog that a healthy rank passes."""
    watchdog, checkpoint = context.run.watchdog, resolution.plan.checkpoint
    for name, stated in watchdog:
        if not isinstance(stated, Duration):
            continue
        limit = stated.seconds
        where = context.locate.run(f"/watchdog/{name}")
        if limit < SHORTEST_LIMIT:
            message = f"a rank counts as hung after {stated} of {name.replace('_', ' ')}"
            fix = f"write {SHORTEST_LIMIT}s or more, or remove it: the default suits most runs"
            yield found("TW217", where, message, fix)
        elif name == "saving" and checkpoint and checkpoint.save_seconds and limit < checkpoint.save_seconds:
            takes = _rounded(checkpoint.save_seconds)
            message = f"a save takes about {takes}, and a rank counts as hung after {stated} of saving"
            fix = f"write `watchdog: {{saving: {_rounded(2 * checkpoint.save_seconds).canonical}}}` or more"
            yield found("TW217", where, message, fix)


def _rounded(seconds: float) -> Duration:
    """A time that people can grasp: whole minutes from two minutes on, and no more than a run can state."""
    whole = ceil(seconds / MINUTE) * MINUTE if seconds >= 2 * MINUTE else max(1, ceil(seconds))
    return Duration(min(whole, Duration.LONGEST))


def starved(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Resources that are too small for what is in a pod, or larger than any node's."""
    yield from _too_small(context, resolution, "/resources", context.run.resources, resolution.binding.ranks)
    for role in resolution.binding.roles:
        if parts := context.run.roles.get(role.name):
            yield from _too_small(context, resolution, f"/roles/{role.name}/resources", parts.resources, role)
    for mount, source in (one for role in resolution.binding.roles for one in resolution.mounts[role.name].values()):
        size, below = _scratch(mount)
        if size is not None and size.bytes > LARGEST_SCRATCH:
            where = context.locate.at(f"{source}{below}")
            yield found("TW218", where, f"no node has {size} of disk", "write what the program needs, as in 500Gi")


def _too_small(context: Context, resolution: Resolution, place: str, asked: Resources, role: Role) -> Iterator[Finding]:
    """What is stated of a role's pods."""
    shared, ranks = asked.shared_memory, resolution.needs.processes_per_node if role.holds_ranks else 0
    if shared and shared.bytes < SMALLEST_SHARED_MEMORY:
        message = f"shared memory of {shared} is less than the 64Mi that a container has without it"
        fix = "write the unit, as in 16Gi; or remove it"
        yield found("TW218", context.locate.run(f"{place}/shared_memory"), message, fix)
    if isinstance(asked.memory, Bytes) and asked.memory.bytes < LEAST_MEMORY:
        message = f"a pod with {asked.memory.bytes:,} bytes of memory starts no program"
        yield found("TW218", context.locate.run(f"{place}/memory"), message, "write the unit, as in 64Gi; or remove it")
    if isinstance(asked.cpu, Cpu) and asked.cpu.millicores < LEAST_CPU * ranks:
        message = f"{ranks} ranks share {asked.cpu} CPU: each waits for its turn, and GPUs wait for ranks"
        yield found("TW218", context.locate.run(f"{place}/cpu"), message, f"write {ranks} or more, or remove it")


def _scratch(mount: Mount) -> tuple[Bytes | None, str]:
    """The size of scratch space, and where the mount says it; None for what is none, or has no size that can be read."""
    if isinstance(mount, ScratchMount):
        return mount.scratch, "/scratch"
    stated = at(mount.volume, "/emptyDir/sizeLimit") if isinstance(mount, KubernetesMount) else None
    try:
        return None if stated is None else Bytes.parse(stated), "/volume/emptyDir/sizeLimit"
    except UnitError:
        return None, ""


def intervals(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Saves that follow each other at once, or never come."""
    checkpoint, duration = resolution.plan.checkpoint, resolution.plan.duration
    if checkpoint is None or resolution.plan.saved_by != "trainer":
        return
    seconds, steps = checkpoint.every_seconds, checkpoint.every_steps
    if seconds is not None and seconds < max(SHORTEST_INTERVAL, checkpoint.save_seconds or 0):
        takes, fix = "", "write minutes, as in `every: 30m`"
        if checkpoint.save_seconds:
            takes = f", and one takes about {_rounded(checkpoint.save_seconds)}"
            least = _rounded(max(10 * checkpoint.save_seconds, MINUTE)).canonical
            fix = f"write `checkpoints: {{every: {least}}}`, which is ten saves long; or use a claim that writes faster"
        message = f"a save is due every {Duration(round(seconds))}{takes}: the run writes more than it trains"
        yield found("TW246", context.locate.run("/checkpoints/every"), message, fix)
    if steps and seconds is None and duration and duration.steps and steps >= duration.steps:
        message = f"a save is due every {steps:,} steps, and the run has {duration.steps:,}: a failure restarts it at step 0"
        fix = f"write every_steps: {max(1, duration.steps // 10)}, or `every: 30m` beside it"
        yield found("TW246", context.locate.run("/checkpoints/every_steps"), message, fix)


def enough_nodes(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """More nodes than the pool has, where the profile says how many that is."""
    pool, needs, resources = resolution.pool, resolution.needs, resolution.plan.resources
    if pool.nodes is None:
        return
    together = min(pool.cpus.millicores // resources.cpu.millicores, pool.memory.bytes // resources.memory.bytes)
    if pool.gpu and needs.gpus_per_node:
        together = min(together, pool.gpu.per_node // needs.gpus_per_node)
    if context.run.host_network or context.run.placement.one_per_node:
        together = 1
    bounds = needs.autoscaled.get(resolution.binding.ranks.name)
    wanted = ceil((bounds.most if bounds else needs.nodes) / max(1, together))
    if wanted > pool.nodes:
        name = resolution.plan.world.pool
        message = f"the run needs {wanted:,} nodes of pool {name}, which has {pool.nodes:,}"
        fix = f"lower topology.nodes, or use another node pool; if the pool grew, correct node_pools.{name}.nodes"
        yield found("TW309", context.locate.run("/topology/nodes"), message, fix)


def enough_nodes_for_all(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The same of all pods of the run that go to a pool, where further roles do: by what they ask for altogether, which no node
    is too small for.
    """
    for name in dict.fromkeys(resolution.pools.values()):
        pool = context.cluster.node_pools[name]
        roles = [role for role in resolution.binding.roles if resolution.pools[role.name] == name]
        further = [role.name for role in roles if role.further]
        if pool.nodes is None or not further:
            continue
        cpu, memory, gpus = (sum(resolution.most_pods(role) * _asked(resolution, role)[at] for role in roles) for at in range(3))
        wanted = max(ceil(cpu / pool.cpus.millicores), ceil(memory / pool.memory.bytes))
        wanted = max(wanted, ceil(gpus / pool.gpu.per_node)) if pool.gpu else wanted
        if wanted > pool.nodes:
            message = f"the pods of all roles need {wanted:,} nodes of pool {name}, which has {pool.nodes:,}"
            fix = f"lower pods or topology.nodes, or use another node pool; if the pool grew, correct node_pools.{name}.nodes"
            yield found("TW309", context.locate.run(f"/roles/{further[-1]}/pods"), message, fix)


def _asked(resolution: Resolution, role: Role) -> tuple[int, int, int]:
    """Millicores, bytes and GPUs of one pod of a role."""
    requests = {one.name: one.request for one in resolution.amounts[role.name]}
    cpu, memory = requests.get("cpu"), requests.get("memory")
    return (
        Cpu.parse(cpu).millicores if cpu else 0,
        Bytes.parse(memory).bytes if memory else 0,
        resolution.gpus_of(role),
    )


PLAN = (rate, limits, starved, intervals, enough_nodes, enough_nodes_for_all)
