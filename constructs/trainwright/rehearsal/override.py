"""Overrides: where a rehearsal differs from a cluster. Each is printed, none is silent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Override:
    subject: str
    """One or two words: ``addresses``, ``image``."""
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"
