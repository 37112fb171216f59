"""What each rank computes and sends for one step of the optimizer, and how long that takes at least.

The links of a node share what leaves it.
"""

from __future__ import annotations

from trainwright.cluster.model import Fabric
from trainwright.plan.model import BatchPlan, CommunicationPlan, WorldPlan
from trainwright.run import Batch, ScriptTraining, Trained
from trainwright_trainer.contract.estimate import computation
from trainwright_trainer.contract.estimate.computation import Computation
from trainwright_trainer.contract.estimate.traffic import collectives
from trainwright_trainer.contract.model import ViT
from trainwright_trainer.contract.sharding import Sharding

FLOPS = 100e12
"""Floating-point operations per second that a GPU is assumed to do. One of today that trains well does several times as many."""


def computed(work: Trained, batch: Batch | BatchPlan) -> Computation | None:
    """As far as it follows from the run; None where the model's size is not known."""
    return computation.computation(work, sequence_length(work), batch.micro, batch.accumulation)


def sequence_length(work: Trained) -> int | None:
    """Tokens of one sample; None if samples are not sequences."""
    if isinstance(work, ScriptTraining):
        return work.sequence_length or (work.model.sequence_length if isinstance(work.model, ViT) else None)
    return computation.sequence_length(work.model, work.data)


def communication(
    work: Computation | None, world: WorldPlan, sharding: Sharding, fabric: Fabric
) -> CommunicationPlan | None:
    """Traffic of one optimizer step; None where the model's size is not known or one rank is alone."""
    if work is None or world.size == 1:
        return None
    made, formula = collectives(work, sharding, world.size, world.processes_per_node)
    leaves = sum(each.leaves_node for each in made)
    seconds = leaves / bytes_per_second(fabric) if world.nodes > 1 else None
    return CommunicationPlan(sent=sum(each.sent for each in made), leaves_node=leaves, formula=formula, seconds=seconds)


def bytes_per_second(fabric: Fabric) -> float:
    """Bandwidth of a node over all of its links."""
    return fabric.links * fabric.gigabits_per_link * 1e9 / 8


def compute_seconds(work: Computation | None) -> float | None:
    """Time of one step's computation on a slow GPU; None where it is not known."""
    operations = step_operations(work)
    return None if operations is None else operations / FLOPS


def step_operations(work: Computation | None) -> float | None:
    """Floating-point operations of one rank in one step; None where they are not known.

    6 for each parameter and token, forward and backward, and 2 more where activations are computed again (Narayanan et al. 2021,
    arXiv:2104.04473, section 3.5, without the attention matrix).
    """
    if work is None or work.tokens is None:
        return None
    operations = 8 if work.trained.activation_checkpointing else 6
    return operations * work.parameters * work.tokens * work.micro * work.accumulation
