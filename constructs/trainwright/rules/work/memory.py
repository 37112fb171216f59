"""Rules on what fits, and on what the ranks send each other to make it fit."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.handshake import Binding
from trainwright.operators import TARGETS
from trainwright.plan import Resolution
from trainwright.plan.estimate.communication import compute_seconds, computed
from trainwright.plan.estimate.fitting import Change, smallest_change
from trainwright.plan.model import MemoryPlan
from trainwright.plan.pods import FABRIC_TITLES
from trainwright.topology import ZeRO
from trainwright.units import GIB
from trainwright_trainer.contract.sharding import Sharding

NOTICEABLE_SECONDS = 1.0
"""Time of a step on the network from which a warning is worth it."""


def memory_fits(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Refuse only where even the lower bound does not fit."""
    memory = resolution.plan.memory
    if memory is None:
        return
    estimates = [(memory, "/batch/micro"), *([] if memory.host is None else [(memory.host, "/resources/memory")])]
    for estimate, pointer in estimates:
        if estimate.low > estimate.limit:
            message = f"the run does not fit into memory: {_estimate(estimate)}"
            yield found("TW220", context.locate.run(pointer), message, _change(context, resolution, estimate))
            return
    for estimate, pointer in estimates:
        if estimate.high > estimate.limit:
            message = f"the run may not fit into memory: {_estimate(estimate)}"
            fix = f"measure it; or {_change(context, resolution, estimate)}"
            yield found("TW221", context.locate.run(pointer), message, fix)
            return


def _estimate(memory: MemoryPlan) -> str:
    return f"a rank needs {_bounds(memory)} GiB, and has {memory.limit / GIB:.1f} GiB ({memory.limit_reason})"


def _bounds(memory: MemoryPlan) -> str:
    return f"{memory.low / GIB:.1f} to {memory.high / GIB:.1f}"


def _of(memory: MemoryPlan) -> str:
    return f"{_bounds(memory)} of {memory.limit / GIB:.1f} GiB"


def _change(context: Context, resolution: Resolution, short: MemoryPlan) -> str:
    """The smallest change that helps where memory is short, with its own estimate."""
    change = smallest_change(context.run, context.cluster, resolution.plan.world.pool, resolution.binding.ranks.name)
    if change is None:
        on_gpu = resolution.plan.world.gpus_per_node and short is resolution.plan.memory
        more = "use GPUs with more memory" if on_gpu else "raise resources.memory"
        return f"take a smaller model, or {more}: no other batch, topology or offload fits"
    also = "" if context.run.trainer else " if the program does the same"
    *first, last = (f"`{text}`" for text in change.texts)
    verb = "which fits" if change.surely else "which may fit"
    written = ' and '.join([', '.join(first), last]) if first else last
    host = change.memory.host
    text = f"write {written}{_elsewhere(context, resolution, change)}, {verb}{also}: {_of(change.memory)}"
    moved = change.run.topology.sharding().offload_optimizer
    return f"{text}, and {_of(host)} on the host" if host and (moved or short is not resolution.plan.memory) else text


def _elsewhere(context: Context, resolution: Resolution, change: Change) -> str:
    """What else must change with a change from mpirun to ranks that find each other."""
    needs = change.run.topology.needs()
    if needs.rendezvous is resolution.needs.rendezvous:
        return ""
    if isinstance(TARGETS[resolution.plan.target].bind(needs, context.cluster), Binding):
        return " without `mpi`"
    there = context.cluster.operators
    installed = [target for target in TARGETS.values() if target.operator is None or target.operator.name in there]
    names = [target.name for target in installed if isinstance(target.bind(needs, context.cluster), Binding)]
    return f" without `mpi`, on target {' or '.join(names)}"


def slow_network(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Traffic that takes longer than the computation it could hide behind, at the network's full rate."""
    work, plan, fabric = context.run.trained, resolution.plan, resolution.pool.fabric
    if work is None or plan.batch is None or not plan.world.gpus_per_node or fabric.kind != "tcp":
        return
    sharding, traffic = context.run.topology.sharding(), plan.communication
    compute = compute_seconds(computed(work, plan.batch))
    if sharding.stage < 3 or traffic is None or traffic.seconds is None or compute is None:
        return
    if traffic.seconds <= max(compute, NOTICEABLE_SECONDS):
        return
    yield found(
        "TW228",
        context.locate.run("/topology/kind"),
        f"each node sends {traffic.leaves_node / GIB:.1f} GiB a step over {FABRIC_TITLES[fabric.kind]}, "
        f"{traffic.seconds:.0f} s at {fabric.links} x {fabric.gigabits_per_link} Gb/s; "
        f"the computation takes {compute:.0f} s on a GPU of 100 TFLOP/s",
        "use a pool with InfiniBand, RoCE or EFA; or raise batch.micro and lower batch.accumulation: weights are sent for each "
        "micro batch" + _groups_of_a_node(sharding, plan.world.processes_per_node),
    )


def _groups_of_a_node(sharding: Sharding, per_node: int) -> str:
    if per_node < 2 or sharding.shard_degree:
        return ""
    engine = "" if sharding.engine == "fsdp2" else "`engine: fsdp2` with "
    return f"; or, where one node holds the model states, write {engine}`fsdp2: {{shard_degree: {per_node}}}`"


def nothing_to_share(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """ZeRO on one rank, however many nodes join."""
    topology = context.run.topology
    if not isinstance(topology, ZeRO) or resolution.needs.most_ranks > 1 or topology.offload.optimizer == "cpu":
        return
    yield found(
        "TW229",
        context.locate.run("/topology/kind"),
        f"{topology.title} has only one rank, so there is nothing to shard",
        "write `kind: ddp`, or give it more GPUs",
    )


def torn_groups(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Shard groups of which some lie in one node and others in several."""
    topology, per_node = context.run.topology, resolution.plan.world.processes_per_node
    degree = topology.shard_degree if isinstance(topology, ZeRO) else None
    if degree is None or resolution.plan.world.nodes == 1 or per_node % degree == 0 or degree % per_node == 0:
        return
    yield found(
        "TW247",
        context.locate.run("/topology/fsdp2/shard_degree"),
        f"shard groups of {degree} ranks on nodes of {per_node} ranks: some lie within one node, and others are spread over two",
        f"write shard_degree: {per_node}, or another divisor or multiple of {per_node}",
    )


PLAN = (memory_fits, slow_network, nothing_to_share, torn_groups)
