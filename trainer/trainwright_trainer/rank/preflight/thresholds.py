"""Thresholds: figures of a node against those that the run states."""

from __future__ import annotations

from trainwright_trainer.rank.preflight.failure import UnfitError


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
