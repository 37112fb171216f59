"""What saving and starting take of the host's memory, as the trainer does both.

A save in the background writes a copy (``TensorSnapshot``): fp32 weights and the optimizer's state. Where every rank holds all of
them (DDP, Horovod), rank 0 alone has a copy, of which the ranks of its pod are counted a share each; where they are sharded, each
rank has one of its shards. From a GPU the copy goes to pinned memory, whose blocks torch rounds up to a power of two
(``CachingHostAllocator``, ATen/core/CachingHostAllocator.h) and keeps for the next save.

A start comes before the first copy, so it counts only as far as it takes more. First values pass through the host one tensor at a
time, in fp32; files of initial weights are mapped, and the kernel takes such pages back. A checkpoint of whole states is read by
rank 0 and sent to all, a file at a time: each rank has the larger of weights and optimizer state on its host. Shards are copied
to the GPU one by one. On CPUs a start takes less than a step, which has gradients too.
"""

from __future__ import annotations

from trainwright.plan.layers import layers
from trainwright.plan.model import MemoryPart, WorldPlan
from trainwright.run import Run, TrainerWorkload
from trainwright_trainer.contract.capabilities import CAPABILITIES
from trainwright_trainer.contract.versions import FIELD_SINCE, KNOWN_VERSIONS

PINNED_BLOCKS = 2
"""Most that a power of two is above what it holds."""

_BLOCKING = KNOWN_VERSIONS[:KNOWN_VERSIONS.index(FIELD_SINCE["work.checkpoints.save"])]


def saves_in_background(run: Run) -> bool:
    """Whether training goes on while a periodic checkpoint is written; releases that know no choice block."""
    engine = run.topology.engine
    if run.trainer is None or engine == "xgboost" or run.trainer_version in _BLOCKING:
        return False
    return CAPABILITIES[engine].saves_in_background and run.checkpoints.save != "blocking"


def saving_parts(run: Run, world: WorldPlan, state: int, elsewhere: int = 0) -> tuple[MemoryPart, ...]:
    """Parts of one rank's share of the pod; none where the model's size is not known, or for engines that are not torch's.

    Args:
        run: what is asked.
        world: its ranks.
        state: bytes of the optimizer's state for each parameter.
        elsewhere: bytes that a rank has on its host anyway, once training goes on.
    """
    work, engine = run.trainer, run.topology.engine
    if work is None or work.model.parameters is None or engine in ("xgboost", "tensorflow"):
        return ()
    copy = _snapshot(run, world, work.model.parameters, 4 + state) if saves_in_background(run) else None
    start = _start(run, work, state, elsewhere + (copy.low if copy else 0)) if world.device == "cuda" else None
    return tuple(part for part in (copy, start) if part is not None)


def _snapshot(run: Run, world: WorldPlan, parameters: int, size: int) -> MemoryPart:
    sharding, sharded = run.topology.sharding(), _every_rank_writes(run)
    ranks = sharding.optimizer if sharded else world.processes_per_node
    share = -(-size * parameters // ranks)
    over = f" / {ranks:,} ranks" if sharded else f" on rank 0 / {ranks:,} ranks of its pod"
    formula = f"{size} bytes x {parameters:,} parameters{over}, a copy that is saved while training goes on"
    if world.device == "cuda" and not sharding.offload_weights:
        return MemoryPart("snapshot", share, PINNED_BLOCKS * share, f"{formula}, pinned: up to {PINNED_BLOCKS} times")
    return MemoryPart("snapshot", share, share, formula)


def _start(run: Run, work: TrainerWorkload, state: int, besides: int) -> MemoryPart | None:
    """What a rank has on its host before it trains, beyond what it has there anyway."""
    parameters = work.model.parameters or 0
    if _every_rank_writes(run):
        known = layers(work.model)
        low, high = (4 * known.largest, 4 * known.largest) if known else (0, 4 * parameters)
        formula = f"4 bytes x {high // 4:,} parameters of the largest tensor"
    else:
        size = max(4, state)
        low = high = size * parameters
        formula = f"{size} bytes x {parameters:,} parameters, a file of the checkpoint that each rank gets"
    if high <= besides:
        return None
    return MemoryPart("start", max(0, low - besides), high - besides, f"{formula}, as far as that is more than what comes later")


def _every_rank_writes(run: Run) -> bool:
    engine = run.topology.engine
    return engine != "xgboost" and CAPABILITIES[engine].every_rank_writes
