"""What of an object belongs to the plan, so that no override may touch it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owned:
    """A part of an object, by a pattern of its pointer."""

    pattern: str
    """A regular expression for the whole pointer."""
    what: str
    fix: str
    """The run's own field that says it better, or why there is none."""
