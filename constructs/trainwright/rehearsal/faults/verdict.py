"""What became of a run under faults, in the words of a review, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from trainwright.operators.ending import ContainerEnd, IndexFailed, JobEnd, Replace, Restart
from trainwright.rehearsal.faults.made import Fault, Incident
from trainwright.rehearsal.progress import Progress
from trainwright_trainer.contract import TerminationMessage

Row = tuple[str, str]


def termination_message(container: ContainerEnd) -> TerminationMessage | None:
    """The message of a container that follows the trainer's contract; None for any other text."""
    try:
        return TerminationMessage.model_validate_json(container.message)
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The losses of two rehearsals of one run, at the steps that both have told."""

    steps: int
    last: int | None
    """The last of these steps."""
    first_difference: int | None
    largest: float
    """Largest difference of two losses, as a share of the undisturbed one."""

    @classmethod
    def of(cls, disturbed: Mapping[int, float], undisturbed: Mapping[int, float]) -> Comparison:
        both = sorted(disturbed.keys() & undisturbed.keys())
        differ = [step for step in both if disturbed[step] != undisturbed[step]]
        shares = [abs(disturbed[step] - undisturbed[step]) / max(abs(undisturbed[step]), 1e-12) for step in differ]
        return cls(len(both), both[-1] if both else None, differ[0] if differ else None, max(shares, default=0.0))

    def __str__(self) -> str:
        if not self.steps:
            return "nothing to compare: neither run has told the loss of a step that the other told too"
        if self.first_difference is None:
            return f"equal to an undisturbed run: the same loss at all {self.steps} steps that both told, up to step {self.last}"
        return (f"not equal to an undisturbed run: from step {self.first_difference} on the losses differ, by up to "
                f"{self.largest:.2g} of the loss; {self.steps} steps were compared")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one rehearsal."""

    incidents: tuple[Incident, ...]
    not_made: tuple[Fault, ...]
    """The run ended before their step."""
    progress: Progress
    damaged: str = ""
    """The checkpoint that was damaged before the first pod."""
    compared: Comparison | None = None
    """None where the run did not complete, or the undisturbed one did not."""
    not_compared: str = ""
    """How the undisturbed run ended, where it did not complete."""

    def rows(self) -> Iterator[Row]:
        if self.damaged:
            yield "damaged", f"{self.damaged}, before the first pod"
        for incident in self.incidents:
            yield str(incident.fault), self._when(incident)
            if incident.damaged:
                yield "  damaged", f"{incident.damaged}, right before"
            if incident.fault.kind == "partition":
                yield "  ended", "; ".join(_ended(incident)) or "no pod: all stayed"
            yield "  replaced", "; ".join(_replaced(incident)) or "nothing"
            yield "  next step", self._next(incident)
            yield "  committed", _step(self.progress.committed(incident.at)) + " at that time"
        for fault in self.not_made:
            yield str(fault), "was not made: the run ended before"
        if self.compared is not None:
            yield "result", str(self.compared)
        if self.not_compared:
            yield "result", f"not compared: the undisturbed run did not complete: {self.not_compared}"

    def _when(self, incident: Incident) -> str:
        return f"at step {before}" if (before := self.progress.before(incident.at)) is not None else "before a step was seen"

    def _next(self, incident: Incident) -> str:
        recovery, before = self.progress.recovery(incident.at), self.progress.before(incident.at)
        if recovery is None:
            return "none was seen"
        began, step = recovery
        lost = f", {before - began} steps lost" if before is not None and before > began else ", no step lost"
        here = max((seconds for _, _, seconds in incident.decisions), default=0.0)
        cluster = max((one.seconds for _, one, _ in incident.decisions if isinstance(one, Replace | Restart)), default=0)
        waits = f", where the controller waits {here:g} s and in a cluster {cluster} s" if cluster else ""
        return f"{step.at - incident.at:.1f} s later, from step {began}{lost}{waits}"

    def as_json(self) -> dict[str, Any]:
        return {
            "faults": [self._incident(one) for one in self.incidents],
            "damaged": self.damaged or None,
            "not_made": [str(one) for one in self.not_made],
            "undisturbed": None if self.compared is None else {
                "compared_steps": self.compared.steps,
                "equal": self.compared.steps > 0 and self.compared.first_difference is None,
                "first_difference": self.compared.first_difference, "largest_difference": self.compared.largest,
            },
            "not_compared": self.not_compared or None,
        }

    def _incident(self, incident: Incident) -> dict[str, Any]:
        recovery, before = self.progress.recovery(incident.at), self.progress.before(incident.at)
        return {
            "fault": incident.fault.kind, "pod": incident.fault.pod and incident.fault.pod.name, "rank": incident.fault.rank,
            "step": before, "damaged": incident.damaged or None,
            "ended": list(_ended(incident)), "replaced": list(_replaced(incident)),
            "next_step_seconds": round(recovery[1].at - incident.at, 3) if recovery else None,
            "resumed_from": recovery[0] if recovery else None,
            "steps_lost": max(before - recovery[0], 0) if recovery and before is not None else None,
            "committed_step": self.progress.committed(incident.at),
        }


def _ended(incident: Incident) -> Iterator[str]:
    """Which pods failed, and why by their own words."""
    for end in (end for end, _, _ in incident.decisions if not end.succeeded):
        container = end.failed_container
        message = termination_message(container) if container else None
        yield f"{end.role} {end.index} with {container.exit_code if container else 0}{f' ({message.reason})' if message else ''}"


def _replaced(incident: Incident) -> Iterator[str]:
    """What the controller replaced, and what it counted."""
    for end, decision, _ in incident.decisions:
        match decision:
            case Replace(match=match, failures=failures):
                rule = "" if match.rule is None else f" by rule {match.rule}"
                yield f"{end.role} {end.index} ({f'failure {failures}' if match.action == 'Count' else f'not counted{rule}'})"
            case Restart(role=role, counted=counted, restarts=restarts):
                yield f"all pods{f' of {role}' if role else ''} ({f'restart {restarts}' if counted else 'not counted'})"
            case IndexFailed():
                yield f"{end.role} {end.index} never: it has failed for good"
            case JobEnd(reason=reason, failed=True):
                yield f"nothing more: {reason}"


def _step(step: int | None) -> str:
    return "no step" if step is None else f"step {step}"
