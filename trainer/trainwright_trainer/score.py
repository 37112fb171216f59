"""Score: what an evaluation found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """Means over the items (images or tokens) that were evaluated."""

    loss: float
    accuracy: float
    items: int
