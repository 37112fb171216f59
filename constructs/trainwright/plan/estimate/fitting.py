"""The smallest change of a run that makes it fit into memory: found by planning the changed run, not by a rule of thumb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import ceil
from typing import Any, NamedTuple

from pydantic import ValidationError

from trainwright.cluster import Cluster, NodePool
from trainwright.plan.estimate.memory import plan_memory, saves_in_background
from trainwright.plan.model import MemoryPlan
from trainwright.plan.pods import plan_world
from trainwright.plan.resources import NODE_SHARE, asked_of, plan_resources
from trainwright.run import Run
from trainwright.topology import DDP, ZeRO
from trainwright.units import GIB, Bytes

LARGEST_GROWTH = 16
"""The largest multiple of the run's nodes that is proposed."""
LARGEST_NODES = 4096


class Change(NamedTuple):
    """A changed run that fits."""

    texts: tuple[str, ...]
    """What to write, as in the run file."""
    run: Run
    """The changed run."""
    memory: MemoryPlan
    surely: bool
    """Whether the upper bound fits too."""


class _Pods(NamedTuple):
    """Those that hold ranks."""

    cluster: Cluster
    pool: str
    role: str

    @property
    def machine(self) -> NodePool:
        return self.cluster.node_pools[self.pool]


class _Step(NamedTuple):
    """One change, and how many things it changes."""

    text: str
    update: Mapping[str, Any]
    """Field of the run -> its new value. Steps that are taken together update different fields."""
    edits: int = 1


_NOTHING = _Step("", {}, 0)


def smallest_change(run: Run, cluster: Cluster, pool: str, role: str) -> Change | None:
    """The first that surely fits, of those with the fewest changes; otherwise the first that may fit, if it takes less at all.

    Among as many changes the order is: saves that need no copy on the host, activation checkpointing, a smaller micro batch with
    the same effective batch, more memory for a pod whose host is what does not fit, ZeRO-1, -2, -3 on the same nodes, larger
    shard groups, offload, more nodes. What leaves a setting of the run unread is passed over. ``role`` is the target's name for
    the pods that hold ranks, in ``pool``.
    """
    may_fit: Change | None = None
    pods = _Pods(cluster, pool, role)
    now = _memory(run, pods)
    for steps in _candidates(run, pods):
        changed = _changed(run, steps)
        memory = _memory(changed, pods)
        if memory is None or not _fits(memory, "low") or any(changed.unread_by(changed.topology.engine)):
            continue
        change = Change(tuple(step.text for step in steps), changed, memory, surely=_fits(memory, "high"))
        if change.surely:
            return change
        if may_fit is None and now is not None and _most(memory) != _most(now):
            may_fit = change
    return may_fit


def _fits(memory: MemoryPlan, bound: str) -> bool:
    both = [memory] if memory.host is None else [memory, memory.host]
    return all(getattr(memory, bound) <= memory.limit for memory in both)


def _most(memory: MemoryPlan) -> tuple[int, int]:
    """Upper bounds, of the GPU and of the host."""
    return memory.high, memory.host.high if memory.host else 0


def _memory(run: Run, pods: _Pods) -> MemoryPlan | None:
    needs = run.topology.needs()
    world = plan_world(needs, pods.cluster, pods.pool, "")
    return plan_memory(run, world, plan_resources(run, pods.machine, needs, pods.role), pods.machine)[0]


def _changed(run: Run, steps: tuple[_Step, ...]) -> Run:
    for step in steps:
        run = run.model_copy(update=step.update)
    return run


def _candidates(run: Run, pods: _Pods) -> list[tuple[_Step, ...]]:
    """Every choice of one change on each axis, those with the fewest changes first."""
    choices = (_shardings(run, pods), _batches(run), _checkpointing(run), _saving(run))
    axes = [[_NOTHING, *steps] for steps in choices]
    ranked = []
    for indices in product(*(range(len(axis)) for axis in axes)):
        steps = [axis[index] for axis, index in zip(axes, indices, strict=True)]
        count = sum(step.edits for step in steps)
        if count:
            ranked.append(((count, indices), tuple(step for step in steps if step.edits)))
    return [steps for _, steps in sorted(ranked, key=lambda entry: entry[0])]


def _checkpointing(run: Run) -> Iterator[_Step]:
    if run.trainer and not run.trainer.activation_checkpointing:
        workload = run.trainer.model_copy(update={"activation_checkpointing": True})
        yield _Step("workload: {activation_checkpointing: true}", {"workload": workload})


def _saving(run: Run) -> Iterator[_Step]:
    if saves_in_background(run):
        yield _Step("checkpoints: {save: blocking}", {"checkpoints": run.checkpoints.model_copy(update={"save": "blocking"})})


def _batches(run: Run) -> Iterator[_Step]:
    """Divisors of the micro batch, so that the effective batch stays."""
    if run.batch is None:
        return
    micro, accumulation = run.batch.micro, run.batch.accumulation
    for parts in range(2, micro + 1):
        if micro % parts == 0:
            batch = {"micro": micro // parts, "accumulation": accumulation * parts}
            yield _Step(f"batch: {_flow(batch)}", {"batch": run.batch.model_copy(update=batch)})


def _shardings(run: Run, pods: _Pods) -> Iterator[_Step]:
    """Ways to spread the model states: more memory for the pod, a higher stage of ZeRO, offload, more nodes."""
    topology = run.topology
    yield from _pod_memory(run, pods)
    if not isinstance(topology, DDP | ZeRO) or topology.needs().gpus_per_node == 0:
        return
    stage, engine = (int(topology.stage), topology.engine) if isinstance(topology, ZeRO) else (0, "deepspeed")
    if isinstance(topology, DDP) and (topology.elastic or any(run.unread_by("deepspeed"))):
        stage, engine = 2, "fsdp2"  # stage 3 is its only one; DeepSpeed lets no node come or go, and does not read every setting
    stages = range(stage + 1, 4) if topology.fewest_ranks > 1 else ()  # one rank has nobody to share with
    for higher in stages:
        yield from _zero(topology, 1, {"kind": f"zero{higher}", "engine": engine})
    yield from _larger_groups(topology)
    changes = 1 if stage == 3 else 2
    for offload in ({"optimizer": "cpu"}, {"optimizer": "cpu", "weights": "cpu"}):
        if engine == "deepspeed" or len(offload) == 2:
            yield from _zero(topology, changes, {"kind": "zero3", "engine": engine, "offload": offload})
    growth = 2
    while growth <= LARGEST_GROWTH and (nodes := _more_nodes(topology, growth)):
        yield from _zero(topology, changes, {"kind": "zero3", "engine": engine, **nodes})
        growth *= 2


def _larger_groups(topology: DDP | ZeRO) -> Iterator[_Step]:
    """Of ranks that share one copy, where groups replicate each other: two, three, … times as many, up to all."""
    if not isinstance(topology, ZeRO) or topology.fsdp2 is None or topology.shard_degree is None:
        return
    moves = topology.elastic is not None and topology.elastic.min_nodes < topology.elastic.max_nodes
    whole = topology.ranks_per_node if moves else topology.nodes * topology.ranks_per_node
    for degree in range(2 * topology.shard_degree, whole + 1, topology.shard_degree):
        if whole % degree == 0:
            settings = {**topology.fsdp2.model_dump(exclude_defaults=True), "shard_degree": degree}
            yield from _zero(topology, 1, {"kind": "zero3", "engine": "fsdp2", "fsdp2": settings})


def _more_nodes(topology: DDP | ZeRO, growth: int) -> dict[str, Any]:
    """The nodes that share the states, times ``growth``: of an elastic run the fewest. Empty beyond what a run can have."""
    elastic = topology.elastic
    nodes = (elastic.min_nodes if elastic else topology.nodes) * growth
    if nodes > LARGEST_NODES:
        return {}
    if elastic is None:
        return {"nodes": nodes}
    stated = elastic.model_dump(exclude_defaults=True)
    ends = {"min_nodes": nodes, "max_nodes": max(nodes, elastic.max_nodes)}
    return {"nodes": max(nodes, topology.nodes), "elastic": {**stated, **ends}}


def _zero(topology: DDP | ZeRO, count: int, update: dict[str, Any]) -> Iterator[_Step]:
    """The topology with some keys changed, unless what it states besides forbids them; the text names those alone. mpirun starts
    no ranks that share their states.
    """
    stated = topology.model_dump(exclude_defaults=True, exclude={"mpi", "ddp"})
    changed = {key: value for key, value in update.items() if stated.get(key) != value}
    try:
        sharded = ZeRO.model_validate({**stated, **update})
    except ValidationError:
        return
    yield _Step(f"topology: {_flow(changed)}", {"topology": sharded}, count)


def _flow(values: dict[str, Any]) -> str:
    """A mapping as YAML writes it on one line."""
    return f"{{{', '.join(f'{key}: {_flow(value) if isinstance(value, dict) else value}' for key, value in values.items())}}}"


def _pod_memory(run: Run, pods: _Pods) -> Iterator[_Step]:
    """As much memory as the upper bound takes, if it is the host that does not fit and a node has that much."""
    memory = _memory(run, pods)
    host = memory.host if memory and run.topology.needs().gpus_per_node else memory
    if host is None or host.high <= host.limit:
        return
    amount = ceil(host.high * run.topology.needs().processes_per_node / GIB) * GIB
    if amount > pods.machine.memory.bytes * NODE_SHARE:
        return
    wanted = Bytes(amount)
    parts = run.roles.get(pods.role)
    if parts and asked_of(parts.resources).memory:  # the nearer statement is the one that counts
        own = parts.model_copy(update={"resources": parts.resources.model_copy(update={"memory": wanted})})
        yield _Step(f"roles: {{{pods.role}: {{resources: {{memory: {wanted}}}}}}}", {"roles": {**run.roles, pods.role: own}})
    else:
        yield _Step(f"resources: {{memory: {wanted}}}", {"resources": run.resources.model_copy(update={"memory": wanted})})
