"""Group: what a loop must be able to ask of all ranks together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, TypeVar

from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import RankError

T = TypeVar("T")


class LostWorkersError(RankError):
    """Another rank is gone, by what a collective says of it."""

    exit_code: ClassVar[ExitCode] = ExitCode.PEER_LOST


class Group(Protocol):
    """All ranks of the run. Every rank makes the same calls in the same order, from its main thread."""

    def broadcast(self, value: T) -> T:
        """Rank 0's value, on every rank; also a point that nobody passes before rank 0 reached it."""

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        """Sums over ranks of numbers on the host."""

    def reduce_array(self, values: Array) -> Array:
        """The same of many, float64 in one dimension."""

    def close(self) -> None:
        """Leave the others in order."""


class Alone:
    """The group of one rank."""

    def broadcast(self, value: T) -> T:
        return value

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def reduce_array(self, values: Array) -> Array:
        return values

    def close(self) -> None:
        pass
