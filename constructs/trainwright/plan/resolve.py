"""From a run and a cluster to a plan: every number and name, decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwright.cluster import Cluster, NodePool
from trainwright.codes import found
from trainwright.findings import CompileError
from trainwright.handshake import Binding, Guarantee, Needs, Process, Refusal
from trainwright.locate import Locator
from trainwright.plan.batch import plan_batch, plan_duration, plan_learning_rate
from trainwright.plan.checkpoint import plan_checkpoint, plan_grace
from trainwright.plan.environment import plan_environment
from trainwright.plan.machine import choose_pool, plan_resources, plan_world
from trainwright.plan.memory import memory_parts
from trainwright.plan.model import MemoryPlan, Plan, RendezvousPlan, ResourcesPlan, WorldPlan
from trainwright.plan.specification import Decided, build_specification
from trainwright.run import CommandWorkload, Run, ScriptWorkload
from trainwright.topology import Work
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import CONTROL_PORT

if TYPE_CHECKING:
    from trainwright.target.base import Target


@dataclass(frozen=True, slots=True)
class Resolution:
    """A run with everything decided: what a target lowers."""

    run: Run
    cluster: Cluster
    target: Target
    pool: NodePool
    plan: Plan
    needs: Needs
    binding: Binding
    processes: dict[str, Process]
    spec: RunSpec | None


def resolve(run: Run, cluster: Cluster, target: Target, name: str, locate: Locator) -> Resolution:
    """Decide everything for a run whose objects are called ``name``.

    Raises:
        CompileError: where the run cannot be planned at all: no pool fits, the target refuses, no place for checkpoints.
    """
    needs = run.topology.needs()
    binding = target.bind(needs)
    if isinstance(binding, Refusal):
        raise CompileError(
            [
                found(
                    "TW401",
                    locate.run("/topology"),
                    f"{target.title} cannot carry {run.topology.title}: {binding.reason}",
                    binding.alternative,
                )
            ]
        )
    pool_name, pool_reason = choose_pool(run, cluster, needs, locate)
    pool = cluster.node_pools[pool_name]
    command = run.workload.command if isinstance(run.workload, CommandWorkload) else None
    processes = run.topology.processes(binding, Work(name=name, command=command))
    process = next(processes[role.name] for role in binding.roles if role.holds_ranks)
    checkpoint = plan_checkpoint(run, cluster, name, locate)
    resources = plan_resources(run, pool, needs)
    batch = plan_batch(run, needs.world_size)
    decided = Decided(
        world=plan_world(needs, cluster, pool_name, pool_reason),
        rendezvous=_rendezvous(needs, binding, name),
        batch=batch,
        learning_rate=plan_learning_rate(run, batch),
        checkpoint=checkpoint,
        grace=plan_grace(checkpoint),
    )
    memory, unknown = _memory(run, decided.world, resources, pool)
    plan = Plan(
        run=run.run,
        name=name,
        team=run.team,
        namespace=run.namespace,
        cluster=cluster.cluster,
        target=target.name,
        target_title=target.title,
        topology=run.topology.title,
        workload=run.workload.kind,
        world=decided.world,
        rendezvous=decided.rendezvous,
        batch=batch,
        learning_rate=decided.learning_rate,
        duration=plan_duration(run, batch),
        memory=memory,
        memory_unknown=unknown,
        resources=resources,
        environment=plan_environment(
            run,
            needs,
            binding,
            process,
            (pool_name, pool.fabric),
            resources,
            checkpoint.directory if checkpoint and not run.trainer else None,
        ),
        checkpoint=checkpoint,
        grace=decided.grace,
        guarantees=_guarantees(run, binding),
    )
    return Resolution(
        run=run,
        cluster=cluster,
        target=target,
        pool=pool,
        plan=plan,
        needs=needs,
        binding=binding,
        processes=processes,
        spec=build_specification(run, name, binding, decided, run.topology.engine, locate),
    )


def _rendezvous(needs: Needs, binding: Binding, name: str) -> RendezvousPlan:
    ranks = next(role for role in binding.roles if role.holds_ranks)
    return RendezvousPlan(
        kind=needs.rendezvous.value,
        host=binding.rank_zero_host.format(name=name),
        port=binding.rendezvous_port,
        control_port=CONTROL_PORT,
        hosts=ranks.host.replace("{name}", name),
    )


def _memory(run: Run, world: WorldPlan, resources: ResourcesPlan, pool: NodePool) -> tuple[MemoryPlan | None, str | None]:
    if run.trainer is None or run.batch is None:
        return None, "the work is opaque to the compiler"
    parts = memory_parts(run.trainer, run.batch.micro, world.device)
    if parts is None:
        return None, "model.parameters is not stated"
    if pool.gpu and world.gpus_per_node:
        return MemoryPlan(parts=parts, limit=pool.gpu.memory.bytes, limit_reason=f"memory of one {pool.gpu.model}"), None
    share = resources.memory.bytes // world.processes_per_node
    return MemoryPlan(parts=parts, limit=share, limit_reason="a rank's share of the pod's memory"), None


def _guarantees(run: Run, binding: Binding) -> tuple[str, ...]:
    """What target, topology and workload all keep; an opaque command keeps nothing."""
    if isinstance(run.workload, CommandWorkload):
        return ()
    kept = binding.guarantees & run.topology.keeps
    if isinstance(run.workload, ScriptWorkload):
        kept &= {Guarantee.RESTART_ALL, *([Guarantee.EXIT_CODES, Guarantee.SIGTERM_SAVE] if run.workload.protocol else [])}
    return tuple(guarantee.value for guarantee in Guarantee if guarantee in kept)
