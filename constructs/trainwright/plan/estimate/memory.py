"""Memory of one rank: an interval with its parts, for its GPU and for the host beside it.

Model states follow Rajbhandari et al. 2020 (ZeRO, arXiv:1910.02054, sections 3.1 and 5). P is the number of parameters, N the
number of ranks that share a part.

Where every rank holds all (DDP), parameters are fp32, as autocast keeps them: 4 P of weights, 4 P of gradients, 8 P of Adam
moments (4 P with SGD momentum). Gradients are added up in DDP's own buckets. Where a parameter takes no part in a step they are
made anew in each pass without communication, and lie beside the buckets (torch/nn/parallel/distributed.py,
``gradient_as_bucket_view``); in the architectures that are known here, all parameters take part.

In half precision autocast also keeps, from the forward pass to the end of the backward pass, a
copy of each weight that enters a matrix product or a convolution: 2 bytes for each parameter but those of an embedding table
that is only looked up.

DeepSpeed keeps weights in the compute precision (2 P in half precision) and a master copy in fp32 beside the optimizer's state,
4 P / N. Stage 3 shares weights and gathers them for use: at least the largest tensor, at most ``stage3_max_live_parameters``
and one tensor more (deepspeed/runtime/zero/partitioned_param_coordinator.py). Gradients travel through buckets of a fixed size.

FSDP2 keeps fp32 shards of weights, gradients and state, where N is the ranks of a group if groups replicate each other. It
gathers one block and the next in the compute precision; a block is copied out of the buffer that it was gathered in, and its
gradient is reduced, in fp32 by default (torch/distributed/fsdp/_fully_shard).

The optimizer's step comes when activations are gone, so what it needs for itself counts only as far as it is more than those.

Saving and starting take memory of the host, as the trainer does both. A save in the background writes a copy
(``TensorSnapshot``): fp32 weights and the optimizer's state. Where every rank holds all of them (DDP, Horovod), rank 0 alone
has a copy, of which the ranks of its pod are counted a share each; where they are sharded, each rank has one of its shards, and
of ranks that hold the same shard one has it, which are counted in the pod that has most of them. From a GPU the copy goes to
pinned memory, whose blocks torch rounds up to a power of two (``CachingHostAllocator``, ATen/core/CachingHostAllocator.h) and
keeps for the next save.

A start comes before the first copy, so it counts only as far as it takes more. First values pass through the host one tensor at a
time, in fp32; files of initial weights are mapped, and the kernel takes such pages back. A checkpoint of whole states is read by
rank 0 and sent to all, a file at a time: each rank has the larger of weights and optimizer state on its host. Shards are copied
to the GPU one by one. On CPUs a start takes less than a step, which has gradients too.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from trainwright.cluster import NodePool
from trainwright.plan.estimate.layers import PRECISION_BYTES, Layers, activations, layers
from trainwright.plan.model import MemoryPart, MemoryPlan, ResourcesPlan, WorldPlan
from trainwright.run import Batch, BoostingWorkload, Run, Trained, TrainerWorkload
from trainwright.topology.base import Sharding
from trainwright.units import GIB
from trainwright_trainer.contract.engine import CAPABILITIES
from trainwright_trainer.contract.training import AdamW, Optimizer

FRAMEWORK_GPU = (GIB * 8 // 10, GIB * 25 // 10)
"""CUDA context, cuBLAS workspace and NCCL buffers: an assumption, not a measurement."""
FRAMEWORK_CPU = (GIB * 3 // 10, GIB * 9 // 10)
"""Python, torch and transformers as a process: an assumption from a few runs."""
FRAMEWORK_HOST = (GIB * 8 // 10, GIB * 4)
"""The same beside a GPU, with the libraries of CUDA: an assumption."""
PINNED_SLACK = 1.5
"""How many times its content pinned memory can take: DeepSpeed's own factor (estimate_zero3_model_states_mem_needs)."""
PINNED_BLOCKS = 2
"""How many times its content a block of pinned memory can be, since its size is a power of two."""


def optimizer_bytes(optimizer: Optimizer) -> int:
    """Bytes of optimizer state for each parameter."""
    if isinstance(optimizer, AdamW):
        return 8
    return 4 if optimizer.momentum else 0


def plan_memory(run: Run, world: WorldPlan, resources: ResourcesPlan, pool: NodePool) -> tuple[MemoryPlan | None, str | None]:
    """The estimate with the memory that there is; or None, and why."""
    if isinstance(run.workload, BoostingWorkload):
        return None, "it follows from the table, which only the pods see"
    work = run.trained
    if work is None or run.batch is None:
        return None, "the work is opaque to the compiler" if work is None else "batch is not stated"
    memory = memory_parts(work, run.batch, world.device, run.topology.sharding())
    if memory is None:
        return None, "model.parameters is not stated"
    share = resources.memory.bytes // world.processes_per_node
    reason = "a rank's share of the pod's memory"
    moved = sum(part.low for part in memory.host)
    on_host = (*memory.host, *saving_parts(run, world, optimizer_bytes(work.optimizer), moved))
    if not (pool.gpu and world.gpus_per_node):
        return MemoryPlan(parts=(*memory.device, *on_host), limit=share, limit_reason=reason), None
    host = None
    if on_host:
        shared = resources.shm.bytes // world.processes_per_node
        used = _part("shared memory", 0, shared, "between nothing and its size, which counts against the pod")
        process = _part("framework", *FRAMEWORK_HOST, "process and libraries (assumed)")
        host = MemoryPlan(parts=(*on_host, process, used), limit=share, limit_reason=reason)
    limit, reason = pool.gpu.memory.bytes, f"memory of one {pool.gpu.model}"
    return MemoryPlan(parts=memory.device, limit=limit, limit_reason=reason, host=host), None


class RankMemory(NamedTuple):
    """Parts of one rank in bytes, by where they lie."""

    device: tuple[MemoryPart, ...]
    """The GPU, or the process of a run on CPUs."""
    host: tuple[MemoryPart, ...] = ()
    """What was moved from there to the host."""


def memory_parts(work: Trained, batch: Batch, device: str, sharding: Sharding) -> RankMemory | None:
    """Parts of one rank's memory, or None where the model's size is not known."""
    parameters = work.model.parameters
    if parameters is None:
        return None
    kept = activations(work, batch.micro, autocast=sharding.engine is None)
    framework = FRAMEWORK_GPU if device == "cuda" else FRAMEWORK_CPU
    rest = (
        _part("activations", kept.low, kept.high, kept.formula),
        _part("framework", *framework, "context, libraries and buffers (assumed)"),
    )
    if sharding.engine is None:
        return RankMemory((*_whole(work, parameters, batch.accumulation), *rest))
    states = _deepspeed if sharding.engine == "deepspeed" else _fsdp2
    shared, host = states(_Model(work, parameters, layers(work.model), batch.accumulation, kept.low, device), sharding)
    return RankMemory((*shared, *rest), host)


class _Model(NamedTuple):
    """What the estimates of sharded states read."""

    work: Trained
    parameters: int
    layers: Layers | None
    accumulation: int
    activations: int
    """The lower bound, in bytes."""
    device: str

    @property
    def bytes(self) -> int:
        """Bytes of one element in the compute precision."""
        return PRECISION_BYTES[self.work.precision]

    @property
    def half(self) -> bool:
        return self.bytes == 2

    @property
    def state(self) -> int:
        return optimizer_bytes(self.work.optimizer)

    @property
    def largest(self) -> tuple[int, int]:
        """Elements of the largest tensor, as an interval."""
        return (self.layers.largest, self.layers.largest) if self.layers else (0, self.parameters)


def _whole(work: Trained, parameters: int, accumulation: int) -> tuple[MemoryPart, ...]:
    """Every rank holds everything."""
    state = optimizer_bytes(work.optimizer)
    gradients = _each("gradients", 4, parameters, 1)
    if accumulation > 1 and layers(work.model) is None:
        beside = f"{gradients.formula}, and again beside DDP's buckets if one of them takes no part in a step"
        gradients = _part("gradients", gradients.low, 2 * gradients.high, beside)
    return (
        _each("weights", 4, parameters, 1),
        gradients,
        _each("optimizer", state, parameters, 1),
        *_copies(work, parameters),
    )


def _copies(work: Trained, parameters: int) -> tuple[MemoryPart, ...]:
    """The copies that autocast keeps in half precision."""
    if work.precision == "fp32":
        return ()
    known = layers(work.model)
    used = parameters - (known.looked_up if known else 0)
    high = 2 * used
    return (_part(f"{work.precision} copies", high if known else 0, high, f"2 bytes x {used:,} parameters"),)


def _deepspeed(model: _Model, sharding: Sharding) -> tuple[tuple[MemoryPart, ...], tuple[MemoryPart, ...]]:
    """Weights, gradients and optimizer on the GPU, and what lies on the host."""
    parameters, size = model.parameters, model.bytes
    weights = _each("weights", size, parameters, sharding.weights)
    master = 4 if model.half or sharding.stage < 3 else 0  # stage 3 in fp32 steps the shards themselves
    optimizer = _each("optimizer", master + model.state, parameters, sharding.optimizer)
    gradients = _deepspeed_gradients(model, sharding)
    parts = [weights, *_gathered(model, sharding), gradients, optimizer, _deepspeed_buffers(model, sharding)]
    host: list[MemoryPart] = []
    if sharding.offload_optimizer:
        parts.remove(optimizer)
        host.append(_pinned(_each("optimizer", master + model.state + 4, parameters, sharding.optimizer)))
        if sharding.stage >= 2:
            parts.remove(gradients)
            host.append(_pinned(gradients))
        if sharding.stage < 3:
            host.append(_pinned(_each("weights", size, parameters, sharding.optimizer)))
    else:
        parts += _step(model, sharding)
    if sharding.offload_weights:
        parts.remove(weights)
        host.append(_pinned(weights))
    return tuple(parts), tuple(host)


def _deepspeed_gradients(model: _Model, sharding: Sharding) -> MemoryPart:
    """Stage 1 keeps whole gradients until the step, and fp32 sums as well if the run asks for them."""
    size = model.bytes
    sums = PRECISION_BYTES[sharding.accumulates(model.work.precision, model.accumulation)]
    if sharding.stage >= 2:
        return _each("gradients", sums, model.parameters, sharding.gradients)
    if model.accumulation == 1 and sums == size:
        share = _share(size * model.parameters, sharding.optimizer)
        text = f"{size} bytes x {model.parameters:,} parameters; at least the rank's own 1/{sharding.optimizer:,}"
        return _part("gradients", share, size * model.parameters, text)
    return _each("gradients", size + (sums if sums != size else 0), model.parameters, 1)


def _gathered(model: _Model, sharding: Sharding) -> tuple[MemoryPart, ...]:
    """What stage 3 gathers at one time."""
    if sharding.stage < 3:
        return ()
    low, high = model.largest
    persistent = model.layers.up_to(sharding.persistent) if model.layers else 0
    most = min(model.parameters, sharding.live + high) + persistent
    text = f"{model.bytes} bytes x {low + persistent:,} to {most:,} parameters gathered"
    return (_part("gathered", model.bytes * (low + persistent), model.bytes * most, text),)


def _deepspeed_buffers(model: _Model, sharding: Sharding) -> MemoryPart:
    """Buckets, and the gradient of the largest tensor, whole before it is reduced. On CPUs untouched memory costs nothing."""
    sums = PRECISION_BYTES[model.work.gradient_reduction or sharding.accumulates(model.work.precision, model.accumulation)]
    buckets = sharding.buckets * sharding.bucket
    low, high = model.largest
    least = model.bytes * low + (model.bytes * buckets if model.device == "cuda" else 0)
    most = model.bytes * high + max(sums, model.bytes) * max(buckets, sharding.bucket)
    text = f"{sharding.buckets} x {sharding.bucket:,} gradients in buckets, and those of the largest tensor of {high:,}"
    return _part("buffers", least, most, text)


def _step(model: _Model, sharding: Sharding) -> tuple[MemoryPart, ...]:
    """Fp32 gradients of the rank's share while the optimizer steps; stage 3 steps a sub-group at a time."""
    share = _share(model.parameters, sharding.optimizer)
    elements = min(share, sharding.sub_group) if sharding.stage == 3 else share
    extra = 4 * elements - model.activations
    if not model.half or extra <= 0:
        return ()
    return (_part("step", 0, extra, f"4 bytes x {elements:,} gradients, as far as they are more than activations"),)


def _fsdp2(model: _Model, sharding: Sharding) -> tuple[tuple[MemoryPart, ...], tuple[MemoryPart, ...]]:
    """Shards, which move together, and what is gathered and reduced on the GPU."""
    parameters, ranks, size = model.parameters, sharding.weights, model.bytes
    shards = (
        _each("weights", 4, parameters, ranks),
        _each("gradients", 4, parameters, ranks),
        _each("optimizer", model.state, parameters, ranks),
    )
    block, outside, low = _groups(model)
    if sharding.reshards:
        most = max(outside + 3 * block, 2 * outside + block)
        text = f"{size} bytes x {low:,} to {most:,} parameters: a block, the next, all that is in none, and a copy of one of them"
        gathered = _part("gathered", size * low, size * most, text)
    else:
        text = f"{size} bytes x {parameters:,} parameters, kept for the backward pass, and a copy of one block"
        gathered = _part("gathered", size * parameters, size * (parameters + block), text)
    wide = PRECISION_BYTES[model.work.gradient_reduction or "fp32"]
    most = max(size * outside + (size + 2 * wide) * block, (size + wide) * outside)
    text = f"gradients of a block of {block:,}, again in {wide} bytes with those of the block before, and of {outside:,} in none"
    buffers = _part("buffers", size * low, most, text)
    if sharding.offload_weights:
        return (gathered, buffers), tuple(_pinned(part) for part in shards)
    return (*shards, gathered, buffers, *_kept_by_malloc(model)), ()


MALLOC_SLACK = 5
"""Times the weights that glibc kept at most (benchmarks/memory.py: 3.6 to 4.9)."""


def _kept_by_malloc(model: _Model) -> tuple[MemoryPart, ...]:
    """On CPUs, what each step gathers and frees. glibc gives blocks of 32 MiB and more back, and keeps smaller ones once one of
    them has been freed (mallopt(3), M_MMAP_THRESHOLD); torch caches memory of GPUs by itself, and uses it again.
    """
    if model.device != "cpu":
        return ()
    text = f"up to {MALLOC_SLACK} x 4 bytes x {model.parameters:,} parameters that were gathered, freed, and kept by glibc"
    return (_part("kept by malloc", 0, MALLOC_SLACK * 4 * model.parameters, text),)


def _groups(model: _Model) -> tuple[int, int, int]:
    """What ``fully_shard`` gathers as one: the largest block, all that is in none, and the least that is whole at one time."""
    if model.layers is None:
        return 0, model.parameters, 0
    return model.layers.block, model.layers.outside, max(model.layers.block, model.layers.largest)


def _each(name: str, size: int, parameters: int, ranks: int) -> MemoryPart:
    """A part of ``size`` bytes for each parameter, shared by ``ranks``."""
    share = _share(size * parameters, ranks)
    over = f" / {ranks:,} ranks" if ranks > 1 else ""
    return _part(name, share, share, f"{size} bytes x {parameters:,} parameters{over}")


def _pinned(part: MemoryPart) -> MemoryPart:
    return _part(part.name, part.low, int(part.high * PINNED_SLACK), f"{part.formula}, pinned: up to {PINNED_SLACK:g} times")


def _share(size: int, ranks: int) -> int:
    return -(-size // ranks)


def _part(name: str, low: int, high: int, formula: str) -> MemoryPart:
    return MemoryPart(name=name, low=low, high=high, formula=formula)


# Saving and starting.

def saves_in_background(run: Run) -> bool:
    """Whether training goes on while a periodic checkpoint is written."""
    engine = run.topology.engine
    if run.trainer is None or engine is None:
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
    if work is None or work.model.parameters is None or engine in (None, "tensorflow"):
        return ()
    copy = _snapshot(run, world, work.model.parameters, 4 + state) if saves_in_background(run) else None
    start = _starting(run, work, state, elsewhere + (copy.low if copy else 0)) if world.device == "cuda" else None
    return tuple(part for part in (copy, start) if part is not None)


def _snapshot(run: Run, world: WorldPlan, parameters: int, size: int) -> MemoryPart:
    sharding, sharded = run.topology.sharding(), _every_rank_writes(run)
    ranks = sharding.optimizer if sharded else world.processes_per_node
    share = _share(size * parameters, ranks)
    over = f" / {ranks:,} ranks" if sharded else f" on rank 0 / {ranks:,} ranks of its pod"
    if sharding.shard_degree:
        most = max(writing_ranks(run, sharding.shard_degree).values())
        share = _share(share * most, world.processes_per_node)
        over += f", {most:,} of the {world.processes_per_node:,} ranks of a pod"
    formula = f"{size} bytes x {parameters:,} parameters{over}, a copy that is saved while training goes on"
    if world.device == "cuda" and not sharding.offload_weights:
        return _part("snapshot", share, PINNED_BLOCKS * share, f"{formula}, pinned: up to {PINNED_BLOCKS} times")
    return _part("snapshot", share, share, formula)


def writing_ranks(run: Run, shard_degree: int) -> Counter[int]:
    """Pod -> ranks in it that write a shard, where groups replicate each other and take turns (``engine/fsdp2.py``).

    Of an elastic run at the fewest nodes, where most ranks of a pod write.
    """
    needs = run.topology.needs()
    nodes = needs.elastic.minimum if needs.elastic else needs.nodes
    groups = max(1, nodes * needs.processes_per_node // shard_degree)
    writers = (shard % groups * shard_degree + shard for shard in range(shard_degree))
    return Counter(rank // needs.processes_per_node for rank in writers)


def _starting(run: Run, work: TrainerWorkload, state: int, besides: int) -> MemoryPart | None:
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
    return _part("start", max(0, low - besides), high - besides, f"{formula}, as far as that is more than what comes later")


def _every_rank_writes(run: Run) -> bool:
    engine = run.topology.engine
    return engine is not None and CAPABILITIES[engine].every_rank_writes
