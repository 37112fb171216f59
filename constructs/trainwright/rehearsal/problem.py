"""Why manifests cannot work, before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason, in the words of whoever would report it in a cluster."""

    where: str
    """Kind, name and field: ``Job digits, container trainer, readinessProbe``."""
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}; {self.fix}"


class CannotWorkError(Exception):
    """The manifests cannot work, or cannot be rehearsed; carries every problem that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class UsageError(Exception):
    """The request itself is wrong: a file that is not there, a folder that is not ours, a rehearsal that already runs."""
