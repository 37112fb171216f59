"""The weights in which two runs end: how far apart, measured by the way that one of them went.

Not by their length: a few steps of a warm-up hardly move weights, and those of a run that learned nothing would lie as close.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.checkpoint.checkpoint_files import CommittedFiles
from trainwright_trainer.commands.verify_resume.comparison import Check, unequal_ends
from trainwright_trainer.commands.verify_resume.leg import Leg
from trainwright_trainer.contract.training import Training

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS = "weights"


def compare_weights(whole: Leg, resumed: Leg, parameters: frozenset[str], tolerance: float) -> Check:
    """Both at their ends, as one vector each: their distance, as a share of the uninterrupted run's way since its first commit.

    Args:
        whole: Uninterrupted.
        resumed: What was killed and resumed.
        parameters: Names of what is compared; the statistics of batch norm differ with the micro batches of a rank.
        tolerance: Largest share. A run that stayed at that first commit is 1 apart.
    """
    one, other = whole.newest, resumed.newest
    if one is None or other is None or one.step != other.step:
        return unequal_ends(WEIGHTS, one, other)
    first = whole.commits[-1]
    end = {name: tensor for name, tensor in _weights(whole, one) if name in parameters}
    way, apart = _distance(end, _weights(whole, first)), _distance(end, _weights(resumed, other))
    where = f"from step {first.step} to step {one.step}"
    if way == 0:
        return Check(WEIGHTS, None, f"those of the uninterrupted run do not move {where}")
    share = apart / way if math.isfinite(apart) and math.isfinite(way) else math.inf
    says = f"{share:.1e} of their way {where} apart, {tolerance:g} is allowed"
    return Check(WEIGHTS, share <= tolerance, says, None if share <= tolerance else one.step)


def parameter_names(training: Training) -> frozenset[str]:
    """Of the run's model, a tied one under its first name. Raises :class:`InvalidRunError` where it cannot be built."""
    from trainwright_trainer.model.build import build_model
    from trainwright_trainer.model.initialise import skeleton

    module = skeleton(lambda: build_model(training.model, training.task, training.data))
    return frozenset(name for name, _ in module.named_parameters())


def _weights(leg: Leg, record: CommitRecord) -> Iterator[tuple[str, Tensor]]:
    from trainwright_trainer.commands.export.full_weights import full_weights

    return full_weights(CommittedFiles(CheckpointStore(leg.checkpoints), record))


def _distance(end: Mapping[str, Tensor], weights: Iterator[tuple[str, Tensor]]) -> float:
    """Infinite where one of them is not there."""
    squares, found = 0.0, set()
    for name, tensor in weights:
        if name in end:
            squares += float((end[name].detach().double() - tensor.detach().double()).square().sum())
            found.add(name)
    return math.sqrt(squares) if found == end.keys() and math.isfinite(squares) else math.inf
