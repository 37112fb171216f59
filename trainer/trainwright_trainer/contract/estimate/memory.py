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

A start comes before the first copy, so the larger of the two counts. First values pass through the host one tensor at a
time, in fp32; files of initial weights are mapped, and the kernel takes such pages back. A checkpoint of whole states is read by
rank 0 and sent to all, a file at a time: each rank has the larger of weights and optimizer state on its host. Shards are copied
to the GPU one by one. On CPUs a start takes less than a step, which has gradients too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from trainwright_trainer.contract.engine import EngineName, SaveMode, background_save
from trainwright_trainer.contract.estimate.activations import activations
from trainwright_trainer.contract.estimate.computation import Computation, MemoryPart
from trainwright_trainer.contract.sharding import Sharding
from trainwright_trainer.contract.training import PRECISION_BYTES, Optimizer

GIB = 2**30
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


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Parts of one rank in bytes, by where they lie."""

    device: tuple[MemoryPart, ...]
    """The GPU, or the process of a run on CPUs."""
    host: tuple[MemoryPart, ...] = ()
    """Beside a GPU: what was moved to the host, what saving and starting take, and the process. Else what was moved."""


class Pod(NamedTuple):
    """Where a rank lives."""

    device: Literal["cpu", "cuda"]
    ranks: int


def checkpoint_bytes(parameters: int, optimizer: Optimizer) -> int:
    """Of one checkpoint, all ranks together: fp32 weights and optimizer state. Buffers and random states are too small."""
    return (4 + optimizer.state_bytes) * parameters


def rank_memory(
    work: Computation, sharding: Sharding, pod: Pod, engine: EngineName | None, save: SaveMode
) -> RankMemory:
    """Everything that one rank takes.

    Args:
        work: What it computes.
        sharding: How the states are spread.
        pod: Where it lives.
        engine: Of our trainer, which saves and starts; None where that is up to a program of the run's own.
        save: As in the run's settings of checkpoints.
    """
    memory = training_memory(work, sharding, pod.device)
    moved = sum(part.low for part in memory.host)
    on_host = (*memory.host, *_saving(work, sharding, pod, engine, save, moved))
    if pod.device == "cpu":
        return RankMemory((*memory.device, *on_host))
    process = MemoryPart("framework", *FRAMEWORK_HOST, "process and libraries (assumed)")
    return RankMemory(memory.device, (*on_host, process) if on_host else ())


def training_memory(work: Computation, sharding: Sharding, device: str) -> RankMemory:
    """What one rank takes while it trains; of the host what was moved there."""
    kept = activations(work, autocast=sharding.engine is None)
    framework = FRAMEWORK_GPU if device == "cuda" else FRAMEWORK_CPU
    rest = (kept, MemoryPart("framework", *framework, "context, libraries and buffers (assumed)"))
    if sharding.engine is None:
        return RankMemory((*_whole(work), *rest))
    if sharding.engine == "deepspeed":
        shared, host = _deepspeed(work, sharding, device, kept.low)
    else:
        shared, host = _fsdp2(work, sharding, device)
    return RankMemory((*shared, *rest), host)


def _whole(work: Computation) -> tuple[MemoryPart, ...]:
    """Every rank holds everything."""
    gradients = _each("gradients", 4, work.parameters, 1)
    if work.accumulation > 1 and work.layers is None:
        beside = f"{gradients.formula}, and again beside DDP's buckets if one of them takes no part in a step"
        gradients = MemoryPart("gradients", gradients.low, 2 * gradients.high, beside)
    return (
        _each("weights", 4, work.parameters, 1),
        gradients,
        _each("optimizer", work.state, work.parameters, 1),
        *_copies(work),
    )


def _copies(work: Computation) -> tuple[MemoryPart, ...]:
    """The copies that autocast keeps in half precision."""
    if work.trained.precision == "fp32":
        return ()
    used = work.parameters - (work.layers.looked_up if work.layers else 0)
    high = 2 * used
    return (MemoryPart(f"{work.trained.precision} copies", high if work.layers else 0, high, f"2 bytes x {used:,} parameters"),)


def _deepspeed(
    work: Computation, sharding: Sharding, device: str, kept: int
) -> tuple[tuple[MemoryPart, ...], tuple[MemoryPart, ...]]:
    """Weights, gradients and optimizer on the GPU, and what lies on the host. ``kept`` are bytes of activations, at least."""
    parameters, size = work.parameters, work.bytes
    weights = _each("weights", size, parameters, sharding.share(3))
    master = 4 if work.half or sharding.stage < 3 else 0  # stage 3 in fp32 steps the shards themselves
    optimizer = _each("optimizer", master + work.state, parameters, sharding.share(1))
    gradients = _deepspeed_gradients(work, sharding)
    parts = [weights, *_gathered(work, sharding), gradients, optimizer, _deepspeed_buffers(work, sharding, device)]
    host: list[MemoryPart] = []
    if sharding.offload_optimizer:
        parts.remove(optimizer)
        host.append(_pinned(_each("optimizer", master + work.state + 4, parameters, sharding.share(1))))
        if sharding.stage >= 2:
            parts.remove(gradients)
            host.append(_pinned(gradients))
        if sharding.stage < 3:
            host.append(_pinned(_each("weights", size, parameters, sharding.share(1))))
    else:
        parts += _step(work, sharding, kept)
    if sharding.offload_weights:
        parts.remove(weights)
        host.append(_pinned(weights))
    return tuple(parts), tuple(host)


def _deepspeed_gradients(work: Computation, sharding: Sharding) -> MemoryPart:
    """Stage 1 keeps whole gradients until the step, and fp32 sums as well if the run asks for them."""
    size = work.bytes
    sums = PRECISION_BYTES[sharding.accumulates(work.trained.precision, work.accumulation)]
    if sharding.stage >= 2:
        return _each("gradients", sums, work.parameters, sharding.share(2))
    if work.accumulation == 1 and sums == size:
        share = _share(size * work.parameters, sharding.share(1))
        text = f"{size} bytes x {work.parameters:,} parameters; at least the rank's own 1/{sharding.share(1):,}"
        return MemoryPart("gradients", share, size * work.parameters, text)
    return _each("gradients", size + (sums if sums != size else 0), work.parameters, 1)


def _gathered(work: Computation, sharding: Sharding) -> tuple[MemoryPart, ...]:
    """What stage 3 gathers at one time."""
    if sharding.stage < 3:
        return ()
    low, high = work.largest
    persistent = work.layers.up_to(sharding.persistent) if work.layers else 0
    most = min(work.parameters, sharding.live + high) + persistent
    text = f"{work.bytes} bytes x {low + persistent:,} to {most:,} parameters gathered"
    return (MemoryPart("gathered", work.bytes * (low + persistent), work.bytes * most, text),)


def _deepspeed_buffers(work: Computation, sharding: Sharding, device: str) -> MemoryPart:
    """Buckets, and the gradient of the largest tensor, whole before it is reduced. On CPUs untouched memory costs nothing."""
    sums = PRECISION_BYTES[work.trained.gradient_reduction or sharding.accumulates(work.trained.precision, work.accumulation)]
    buckets = sharding.buckets * sharding.bucket
    low, high = work.largest
    least = work.bytes * low + (work.bytes * buckets if device == "cuda" else 0)
    most = work.bytes * high + max(sums, work.bytes) * max(buckets, sharding.bucket)
    text = f"{sharding.buckets} x {sharding.bucket:,} gradients in buckets, and those of the largest tensor of {high:,}"
    return MemoryPart("buffers", least, most, text)


def _step(work: Computation, sharding: Sharding, kept: int) -> tuple[MemoryPart, ...]:
    """Fp32 gradients of the rank's share while the optimizer steps; stage 3 steps a sub-group at a time."""
    share = _share(work.parameters, sharding.share(1))
    elements = min(share, sharding.sub_group) if sharding.stage == 3 else share
    extra = 4 * elements - kept
    if not work.half or extra <= 0:
        return ()
    return (MemoryPart("step", 0, extra, f"4 bytes x {elements:,} gradients, as far as they are more than activations"),)


def _fsdp2(
    work: Computation, sharding: Sharding, device: str
) -> tuple[tuple[MemoryPart, ...], tuple[MemoryPart, ...]]:
    """Shards, which move together, and what is gathered and reduced on the GPU."""
    parameters, ranks, size = work.parameters, sharding.share(3), work.bytes
    shards = (
        _each("weights", 4, parameters, ranks),
        _each("gradients", 4, parameters, ranks),
        _each("optimizer", work.state, parameters, ranks),
    )
    block, outside, low = _groups(work)
    if sharding.reshards:
        most = max(outside + 3 * block, 2 * outside + block)
        text = f"{size} bytes x {low:,} to {most:,} parameters: a block, the next, all that is in none, and a copy of one of them"
        gathered = MemoryPart("gathered", size * low, size * most, text)
    else:
        text = f"{size} bytes x {parameters:,} parameters, kept for the backward pass, and a copy of one block"
        gathered = MemoryPart("gathered", size * parameters, size * (parameters + block), text)
    wide = PRECISION_BYTES[work.trained.gradient_reduction or "fp32"]
    most = max(size * outside + (size + 2 * wide) * block, (size + wide) * outside)
    text = f"gradients of a block of {block:,}, again in {wide} bytes with those of the block before, and of {outside:,} in none"
    buffers = MemoryPart("buffers", size * low, most, text)
    if sharding.offload_weights:
        return (gathered, buffers), tuple(_pinned(part) for part in shards)
    return (*shards, gathered, buffers, *_kept_by_malloc(work, device)), ()


MALLOC_SLACK = 5
"""Times the weights that glibc kept at most (benchmarks/memory.py: 3.6 to 4.9)."""


def _kept_by_malloc(work: Computation, device: str) -> tuple[MemoryPart, ...]:
    """On CPUs, what each step gathers and frees. glibc gives blocks of 32 MiB and more back, and keeps smaller ones once one of
    them has been freed (mallopt(3), M_MMAP_THRESHOLD); torch caches memory of GPUs by itself, and uses it again.
    """
    if device != "cpu":
        return ()
    text = f"up to {MALLOC_SLACK} x 4 bytes x {work.parameters:,} parameters that were gathered, freed, and kept by glibc"
    return (MemoryPart("kept by malloc", 0, MALLOC_SLACK * 4 * work.parameters, text),)


def _groups(work: Computation) -> tuple[int, int, int]:
    """What ``fully_shard`` gathers as one: the largest block, all that is in none, and the least that is whole at one time."""
    if work.layers is None:
        return 0, work.parameters, 0
    return work.layers.block, work.layers.outside, max(work.layers.block, work.layers.largest)


# Saving and starting.


def _saving(
    work: Computation, sharding: Sharding, pod: Pod, engine: EngineName | None, save: SaveMode, moved: int
) -> tuple[MemoryPart, ...]:
    """Of one rank's share of the pod, beside the bytes that were moved there; none for engines that are not torch's."""
    if engine is None or engine == "tensorflow":
        return ()
    start = _starting(work, sharding, moved) if pod.device == "cuda" else None
    copy = _snapshot(work, sharding, pod) if background_save(engine, save) else None
    if start is None or copy is None:
        return tuple(part for part in (start, copy) if part is not None)
    return (_larger(start, copy),)


def _snapshot(work: Computation, sharding: Sharding, pod: Pod) -> MemoryPart:
    """In the pod with the most ranks that write; of an elastic run at the fewest nodes, where that is most of them."""
    layout, size = sharding.layout, 4 + work.state
    most = max(layout.writers(pod.ranks).values())
    share = _share(_share(size * work.parameters, layout.shard) * most, pod.ranks)
    over = f" / {layout.shard:,} ranks" if sharding.stage else f" on rank 0 / {pod.ranks:,} ranks of its pod"
    if sharding.shard_degree:
        over += f", {most:,} of the {pod.ranks:,} ranks of a pod"
    formula = f"{size} bytes x {work.parameters:,} parameters{over}, a copy that is saved while training goes on"
    pinned = pod.device == "cuda" and not sharding.offload_weights
    text = f"{formula}, pinned: up to {PINNED_BLOCKS} times" if pinned else formula
    return MemoryPart("snapshot", share, PINNED_BLOCKS * share if pinned else share, text)


def _starting(work: Computation, sharding: Sharding, moved: int) -> MemoryPart | None:
    """What a rank has on its host before it trains, beyond the bytes that are moved there."""
    if sharding.stage:
        low, high = 4 * work.largest[0], 4 * work.largest[1]
        formula = f"4 bytes x {high // 4:,} parameters of the largest tensor"
    else:
        size = max(4, work.state)
        low = high = size * work.parameters
        formula = f"{size} bytes x {work.parameters:,} parameters, a file of the checkpoint that each rank gets"
    if high <= moved:
        return None
    formula += ", as far as that is more than what is moved there" if moved else ""
    return MemoryPart("start", max(0, low - moved), high - moved, formula)


def _larger(first: MemoryPart, later: MemoryPart) -> MemoryPart:
    """Of two parts that are never there together; both in one where it is not certain which takes more."""
    for one, other in ((first, later), (later, first)):
        if one.high <= other.low:
            return other
    low, high = max(first.low, later.low), max(first.high, later.high)
    return MemoryPart(f"{first.name} or {later.name}", low, high, f"{first.formula}; or {later.formula}")


# Parts.


def _each(name: str, size: int, parameters: int, ranks: int) -> MemoryPart:
    """A part of ``size`` bytes for each parameter, shared by ``ranks``."""
    share = _share(size * parameters, ranks)
    over = f" / {ranks:,} ranks" if ranks > 1 else ""
    return MemoryPart(name, share, share, f"{size} bytes x {parameters:,} parameters{over}")


def _pinned(part: MemoryPart) -> MemoryPart:
    return MemoryPart(part.name, part.low, int(part.high * PINNED_SLACK), f"{part.formula}, pinned: up to {PINNED_SLACK:g} times")


def _share(size: int, ranks: int) -> int:
    return -(-size // ranks)
