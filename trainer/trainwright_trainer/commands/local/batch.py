"""The batch of a run at another number of ranks: the same samples in each step, in other portions."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright_trainer.contract.failures import InvalidRunError


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
