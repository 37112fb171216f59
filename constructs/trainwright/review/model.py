"""What a review says, before it becomes text, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from trainwright.findings import Finding
from trainwright.model import Fact
from trainwright.project.record import RunRecord
from trainwright.review.fields import FieldChange


class Class(StrEnum):
    """What happens to a run when the change is merged, in the order in which a reviewer should look."""

    DATA_AT_RISK = "data-at-risk"
    """A claim that it uses is no longer described."""
    REPLACED = "replaced"
    """The running job is deleted, and another one starts."""
    NEW = "new"
    RESUMED = "resumed"
    """It was paused."""
    PAUSED = "paused"
    RETIRED = "retired"
    HELD = "held"
    """It keeps its objects, though today's inputs would give it others."""
    COSMETIC = "cosmetic"
    """It goes on as it is: no pod restarts."""

    @property
    def words(self) -> str:
        """As a heading has it."""
        return {
            Class.DATA_AT_RISK: "DATA AT RISK", Class.REPLACED: "replaces a running job", Class.COSMETIC: "no restart",
        }.get(self, self.value)

    @property
    def meaning(self) -> str:
        return {
            Class.DATA_AT_RISK: "storage that the run uses is no longer described here, so nothing looks after its data",
            Class.REPLACED: "the job that runs now is stopped, and another one starts with the new settings",
            Class.NEW: "a run that was not there, or was done",
            Class.RESUMED: "a run that was paused: its job starts again",
            Class.PAUSED: "the run's job is stopped if it still runs, until the run is active again",
            Class.RETIRED: "the run is gone, or marked as done: its job is stopped if it still runs",
            Class.HELD: "the run keeps the job that it has, though new settings would restart it",
            Class.COSMETIC: "pods go on; labels, alerts, comments, network policies or disruption budgets beside them change",
        }[self]


@dataclass(frozen=True, slots=True)
class FactChange:
    """A stated fact that differs; None where there was, or is, none."""

    key: str
    label: str
    before: Fact | None
    after: Fact | None


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A finding that one side has and the other has not."""

    code: str
    title: str
    before: str | None
    """``warning``, ``note`` or ``waived``; None where there was none."""
    after: str | None

    @property
    def grade(self) -> str:
        """``new warning TW203``, ``gone: note TW205``, ``warning TW305 is now waived``."""
        if self.before is None:
            return f"new {self.after} {self.code}"
        return f"gone: {self.before} {self.code}" if self.after is None else f"{self.before} {self.code} is now {self.after}"


@dataclass(frozen=True, slots=True)
class RunReview:
    """A run that changes."""

    run: str
    change: Class
    before: RunRecord | None
    """As it was active; None where it was not."""
    after: RunRecord | None
    outcome: str
    """What happens, in a sentence."""
    training: str
    """What that means for its steps, in a few words."""
    facts: tuple[FactChange, ...] = ()
    fields: tuple[FieldChange, ...] = ()
    cause: str | None = None
    """What changed besides the run's own file, where that is the same."""
    findings: tuple[Finding, ...] = ()
    """Warnings that stand on the head side."""
    codes: tuple[CodeChange, ...] = ()
    """Findings that are new or gone, where both records say which there are."""
    estimates: Mapping[str, str] = field(default_factory=dict)
    """Label -> what the head side's plan estimates."""

    @property
    def gpus(self) -> tuple[int, int]:
        """Before and after."""
        return _gpus(self.before), _gpus(self.after)


@dataclass(frozen=True, slots=True)
class SharedReview:
    """A change of a profile, of a foundation or of the compiler, with the runs that it touches."""

    title: str
    runs: tuple[str, ...]
    facts: tuple[FactChange, ...] = ()
    fields: tuple[FieldChange, ...] = ()
    risk: str = ""
    """What may be lost."""
    effect: str = ""
    """What it does to running jobs, in a sentence."""


@dataclass(frozen=True, slots=True)
class Review:
    """Everything that changes."""

    base: str
    head: str
    runs: tuple[RunReview, ...]
    shared: tuple[SharedReview, ...]
    notes: tuple[str, ...]
    """What makes the review incomplete."""

    def counts(self) -> dict[Class, int]:
        """How many runs of each class there are, in the order of the classes."""
        return {one: number for one in Class if (number := sum(run.change is one for run in self.runs))}

    @property
    def gpus(self) -> tuple[int, int]:
        """Of all runs that change, before and after."""
        return sum(run.gpus[0] for run in self.runs), sum(run.gpus[1] for run in self.runs)


def _gpus(record: RunRecord | None) -> int:
    value = record.facts.get("gpus", 0) if record else 0
    return value if isinstance(value, int) else 0
