"""What each rank sends for one step of the optimizer, and how long the network between nodes takes for it at least.

A collective over N ranks moves (N - 1) / N of its data through each of them: a reduce-scatter and an all-gather once, an
all-reduce twice (Rajbhandari et al. 2020, arXiv:1910.02054, section 7). With P parameters, a step of A micro batches sends

- DDP: an all-reduce of gradients, 2 x 4 P in fp32, once (ranks add up gradients by themselves until the last micro batch);
- ZeRO-1: an all-reduce of gradients and an all-gather of new weights (DeepSpeed sums buckets of several ranks in one all-reduce
  instead of reducing to each rank, ``allreduce_and_scatter`` in deepspeed/runtime/zero/stage_1_and_2.py);
- ZeRO-2: the gradients for each of the A micro batches, since nobody keeps them whole, and new weights once;
- ZeRO-3: for each micro batch the weights twice, for the forward and the backward pass, and the gradients once: with A = 1 half
  as much again as DDP in the same precision. Weights that stay gathered are sent once.

A ring crosses the border of each node once, so a node sends as much as one rank does; its links share it.
"""

from __future__ import annotations

from trainwright.cluster.model import Fabric
from trainwright.plan.activations import sequence_length
from trainwright.plan.model import BatchPlan, CommunicationPlan, WorldPlan
from trainwright.run import TrainerWorkload
from trainwright.topology.sharding import Sharding

FLOPS = 100e12
"""Floating-point operations a second: what a GPU is taken to do. One of today that trains well does several times as many."""

_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


def communication(
    work: TrainerWorkload, batch: BatchPlan, world: WorldPlan, sharding: Sharding, fabric: Fabric
) -> CommunicationPlan | None:
    """Traffic of one optimizer step; None where the model's size is not known or one rank is alone."""
    if work.model.parameters is None or world.size == 1:
        return None
    sent, formula = traffic(work, batch, world.size, sharding)
    return CommunicationPlan(sent=sent, formula=formula, seconds=sent / bytes_per_second(fabric) if world.nodes > 1 else None)


def traffic(work: TrainerWorkload, batch: BatchPlan, ranks: int, sharding: Sharding) -> tuple[int, str]:
    """Bytes that one of so many ranks sends in one optimizer step, with the formula; the model's size is known."""
    parameters, size, steps = work.model.parameters or 0, _BYTES[work.precision], batch.accumulation
    if sharding.engine is None:
        gradients = _BYTES[work.gradient_reduction or "fp32"]
        sent, formula = 2 * gradients * parameters, f"2 x {gradients} bytes x {parameters:,} gradients, reduced once"
    elif sharding.engine == "fsdp2":
        gathers = 2 if sharding.reshards else 1
        gradients = _BYTES[work.gradient_reduction or "fp32"]
        sent = steps * parameters * (gathers * size + gradients)
        formula = f"{steps} x ({gathers} x {size} bytes of weights + {gradients} of gradients) x {parameters:,}"
    else:
        gradients = _BYTES[work.gradient_reduction or work.precision]
        sent, formula = _deepspeed(parameters, size, gradients, steps, sharding.stage)
    return sent * (ranks - 1) // ranks, formula


def bytes_per_second(fabric: Fabric) -> float:
    """Of a node, over all of its links."""
    return fabric.links * fabric.gigabits_per_link * 1e9 / 8


def _deepspeed(parameters: int, size: int, gradients: int, steps: int, stage: int) -> tuple[int, str]:
    if stage == 3:
        sent = steps * parameters * (2 * size + gradients)
        return sent, f"{steps} x (2 x {size} bytes of weights + {gradients} of gradients) x {parameters:,}"
    times = steps if stage == 2 else 1
    formula = f"({size} bytes of weights + {times} x 2 x {gradients} of gradients) x {parameters:,}"
    return parameters * (size + times * 2 * gradients), formula


def compute_seconds(work: TrainerWorkload, batch: BatchPlan) -> float | None:
    """Time of one step's computation on a slow GPU; None where it is not known."""
    operations = step_operations(work, batch)
    return None if operations is None else operations / FLOPS


def step_operations(work: TrainerWorkload, batch: BatchPlan) -> float | None:
    """Floating-point operations of one rank in one step; None where they are not known.

    6 for each parameter and token, forward and backward, and 2 more where activations are computed again (Narayanan et al. 2021,
    arXiv:2104.04473, section 3.5, without the attention matrix).
    """
    tokens, parameters = sequence_length(work), work.model.parameters
    if tokens is None or parameters is None:
        return None
    operations = 8 if work.activation_checkpointing else 6
    return operations * parameters * tokens * batch.micro * batch.accumulation
