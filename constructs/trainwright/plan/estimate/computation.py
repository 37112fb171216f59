"""What a rank of a run computes in a step, and how long that takes on a slow GPU."""

from __future__ import annotations

from trainwright.plan.model import BatchPlan
from trainwright.run import Batch, ScriptTraining, Trained
from trainwright_trainer.contract.estimate import computation
from trainwright_trainer.contract.estimate.computation import Computation
from trainwright_trainer.contract.model import ViT

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


def compute_seconds(work: Trained, batch: BatchPlan) -> float | None:
    """Time of one step's computation on a slow GPU; None where it is not known."""
    operations = step_operations(work, batch)
    return None if operations is None else operations / FLOPS


def step_operations(work: Trained, batch: BatchPlan) -> float | None:
    """Floating-point operations of one rank in one step; None where they are not known.

    6 for each parameter and token, forward and backward, and 2 more where activations are computed again (Narayanan et al. 2021,
    arXiv:2104.04473, section 3.5, without the attention matrix).
    """
    tokens, parameters = sequence_length(work), work.model.parameters
    if tokens is None or parameters is None:
        return None
    operations = 8 if work.activation_checkpointing else 6
    return operations * parameters * tokens * batch.micro * batch.accumulation
