"""The batch at any number of ranks: how many samples a step sees, and how each rank takes its share of them.

Pure, so that every rank and every attempt comes to the same shares by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.training import WorldBatch

if TYPE_CHECKING:  # numpy is not for a supervisor, which refits a run that it plays
    from trainwright_trainer.data.order import Samples


@dataclass(frozen=True, slots=True)
class StepShares:
    """How the ranks of one world size share the samples of a step."""

    samples: int
    """Of the whole step."""
    passes: tuple[tuple[int, ...], ...]
    """Rank -> samples of each of its forward passes. All ranks make equally many passes, for gradients are summed in the last.

    No pass is larger than ``batch.micro``. A 0 is a pass without samples of its own: it takes a world that does not divide the
    batch and a micro batch of 1. Its rank computes something that counts for nothing, so that the others need not wait.
    """

    def slices(self, batch: Samples, rank: int) -> list[Samples]:
        """One rank's micro batches of a step's ``samples`` samples: a contiguous stretch, the ranks' one after the other."""
        if len(batch) != self.samples:
            raise ValueError(f"a step of {self.samples} samples, and {len(batch)} are given")
        start, slices = sum(sum(sizes) for sizes in self.passes[:rank]), []
        for size in self.passes[rank]:
            slices.append(batch[start:start + size])
            start += size
        return slices


def share_step(batch: WorldBatch, world_size: int) -> StepShares:
    """How ``world_size`` ranks make a step.

    With ``keep: effective`` a step has exactly ``effective`` samples at every size. Shares differ by one sample at most, and as
    many passes are made as the largest needs. Otherwise every rank makes ``accumulation`` passes of ``micro``, and the step
    follows.

    Raises:
        ValueError: There are more ranks than samples in a step.
    """
    if batch.keep != "effective" or batch.effective is None:
        return StepShares(batch.micro * batch.accumulation * world_size, ((batch.micro,) * batch.accumulation,) * world_size)
    each, more = divmod(batch.effective, world_size)
    if not each:
        raise ValueError(
            f"batch.effective is {batch.effective} and there are {world_size} ranks, more than samples in a step; "
            "lower rendezvous.max_nodes, or raise the batch"
        )
    count = -(-(each + (more > 0)) // batch.micro)
    return StepShares(batch.effective, tuple(_cut(each + (rank < more), count, batch.micro) for rank in range(world_size)))


def _cut(share: int, count: int, micro: int) -> tuple[int, ...]:
    """Passes as large as they may be, with one sample left for each of those that follow: one shape, and a smaller end."""
    sizes, left = [], share
    for following in reversed(range(count)):
        size = min(micro, max(left - following, min(left, 1)))
        sizes.append(size)
        left -= size
    return tuple(sizes)


@dataclass(frozen=True, slots=True)
class Passes:
    """What a replica does in one step."""

    micro: int
    """Samples of each forward pass."""
    accumulation: int
    """Forward passes."""


def refit(samples: int, replicas: int, micro: int) -> Passes:
    """How ``replicas`` make a step of ``samples`` with micro batches as large as they may be: at most ``micro``.

    Raises:
        InvalidRunError: The samples cannot be dealt out evenly. The message names the numbers that can.
    """
    each, rest = divmod(samples, replicas)
    if rest or not each:
        possible = ", ".join(map(str, divisors(samples)))
        raise InvalidRunError(
            f"a step of this run has {samples} samples, and {replicas} ranks cannot share them evenly; use one of {possible}"
        )
    size = max(size for size in range(1, min(micro, each) + 1) if each % size == 0)
    return Passes(size, each // size)


def divisors(number: int) -> list[int]:
    """Ascending, the number itself included."""
    low = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    return sorted({*low, *(number // each for each in low)})
