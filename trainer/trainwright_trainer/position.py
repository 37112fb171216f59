"""Position: how far a run has come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """How far a run has come. All that the data order needs is ``samples``."""

    step: int = 0
    samples: int = 0
