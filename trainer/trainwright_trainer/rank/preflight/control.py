"""Control: the words of the checks between ranks, which every library that trains has a way to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainwright_trainer.rank.place import Place


@dataclass(frozen=True, slots=True)
class Control:
    """Numbers between the hosts of all ranks. Every rank makes the same calls in the same order."""

    broadcast: Callable[[float], float]
    """Rank 0's value, on every rank."""
    reduce_sums: Callable[[Sequence[float]], list[float]]
    """Sums over ranks. No rank has them before every rank has come."""

    def gather(self, value: float, place: Place) -> list[float]:
        """Everybody's value by rank, on every rank: a sum to which each rank adds its own place, and zeros elsewhere."""
        values = [0.0] * place.world_size
        values[place.rank] = value
        return self.reduce_sums(values)
