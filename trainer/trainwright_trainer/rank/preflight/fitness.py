"""What makes a node unfit, and what the checks need of the other ranks to say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import RankError
from trainwright_trainer.rank.place import Place


class UnfitError(Exception):
    """A check failed. The message says what was found, and not where."""


class NodeUnhealthyError(RankError):
    """A check failed. The message names the node, to be cordoned."""

    exit_code = ExitCode.NODE_UNHEALTHY


class TooSlowError(UnfitError):
    """Beyond a threshold of the run."""


def at_least(found: float, threshold: float | None, what: str, key: str) -> None:
    """Raises :class:`TooSlowError` below the threshold, if there is one. ``what`` was found, beginning with its unit."""
    if threshold is not None and found < threshold:
        raise TooSlowError(f"{found:.3g} {what}, and lifecycle.preflight.{key} is {threshold:g}")


def at_most(found: float, threshold: float | None, what: str, key: str) -> None:
    """The same above the threshold."""
    if threshold is not None and found > threshold:
        raise TooSlowError(f"{found:.3g} {what}, and lifecycle.preflight.{key} is {threshold:g}")


def shares_of_median(figures: Sequence[float]) -> list[float]:
    """Each rank's figure over the median of all."""
    middle = median(figures)
    return [figure / middle for figure in figures]


def compare_with_median(figures: Sequence[float], rank: int, least: float) -> None:
    """Hold a rank's matrix product, in TFLOP/s, against those of all ranks.

    Raises:
        TooSlowError: It is a smaller share of their median than ``least``: at each step all the others would wait for it.
    """
    share = shares_of_median(figures)[rank]
    if share < least:
        raise TooSlowError(
            f"rank {rank} computes {figures[rank]:.3g} TFLOP/s, {share:.2g} of the median of all {len(figures)} ranks, and "
            f"lifecycle.preflight.min_share_of_median is {least:g}"
        )


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
