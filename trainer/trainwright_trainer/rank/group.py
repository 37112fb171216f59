"""Group: what the ranks of a run say to each other, from host to host, apart from the tensors of training."""

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
    """All ranks of the run. Every rank makes the same calls in the same order.

    Two groups may be used at the same time, each by one thread.
    """

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        """Sums over ranks. No rank has them before every rank has come."""

    def broadcast(self, value: T) -> T:
        """Rank 0's value, on every rank; also a point that no rank passes before rank 0 reached it."""

    def gather(self, value: T) -> list[T]:
        """All values by rank on rank 0, nothing on the others."""


class Alone:
    """The group of one rank."""

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def reduce_array(self, values: Array) -> Array:
        return values

    def broadcast(self, value: T) -> T:
        return value

    def gather(self, value: T) -> list[T]:
        return [value]

    def close(self) -> None:
        pass
