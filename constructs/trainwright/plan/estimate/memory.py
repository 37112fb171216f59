"""The estimate of a rank's memory beside what there is: of its GPU, and of its share of the pod."""

from __future__ import annotations

from trainwright.cluster import NodePool
from trainwright.plan.estimate.communication import computed
from trainwright.plan.model import MemoryPlan, ResourcesPlan, WorldPlan
from trainwright.run import BoostingWorkload, Run
from trainwright_trainer.contract.engine import EngineName, background_save
from trainwright_trainer.contract.estimate.computation import MemoryPart
from trainwright_trainer.contract.estimate.memory import Pod, rank_memory


def plan_memory(run: Run, world: WorldPlan, resources: ResourcesPlan, pool: NodePool) -> tuple[MemoryPlan | None, str | None]:
    """The estimate with the memory that there is; or None, and why."""
    if isinstance(run.workload, BoostingWorkload):
        return None, "it follows from the table, which only the pods see"
    if run.trained is None or run.batch is None:
        return None, "the work is opaque to the compiler" if run.trained is None else "batch is not stated"
    work = computed(run.trained, run.batch)
    if work is None:
        return None, "model.parameters is not stated"
    pod = Pod("cuda" if pool.gpu and world.gpus_per_node else "cpu", world.processes_per_node)
    memory = rank_memory(work, run.topology.sharding(), pod, _engine(run), run.checkpoints.save)
    share, reason = resources.memory.bytes // pod.ranks, "a rank's share of the pod's memory"
    if pool.gpu is None or pod.device == "cpu":
        return MemoryPlan(parts=memory.device, limit=share, limit_reason=reason), None
    host = None
    if memory.host:
        shared = resources.shm.bytes // pod.ranks
        used = MemoryPart("shared memory", 0, shared, "between nothing and its size, which counts against the pod")
        host = MemoryPlan(parts=(*memory.host, used), limit=share, limit_reason=reason)
    limit, reason = pool.gpu.memory.bytes, f"memory of one {pool.gpu.model}"
    return MemoryPlan(parts=memory.device, limit=limit, limit_reason=reason, host=host), None


def saves_in_background(run: Run) -> bool:
    """Whether training goes on while a periodic checkpoint is written."""
    return background_save(_engine(run), run.checkpoints.save)


def _engine(run: Run) -> EngineName | None:
    """Of our trainer, where it trains a network."""
    return run.topology.engine if run.trainer else None
