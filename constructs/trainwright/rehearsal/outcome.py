"""Outcome of a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from trainwright.rehearsal.controller import Run, StopRequest
from trainwright.rehearsal.override import Override
from trainwright.rehearsal.pod_end import ContainerEnd, PodEnd
from trainwright.rehearsal.training_log import TrainingLog
from trainwright_trainer.contract import TerminationMessage

Status = Literal["Complete", "Failed", "Stopped"]

SIGNAL = "Signal"
COMPLETE_CODE, FAILED_CODE, USAGE_CODE, CANNOT_WORK_CODE, STOPPED_CODE = 0, 1, 2, 3, 143
"""Exit codes of ``trainwright rehearse``."""


@dataclass(frozen=True, slots=True)
class Outcome:
    status: Status
    reason: str
    """As in the Job's condition: ``CompletionsReached``, ``PodFailurePolicy``, ..."""
    message: str
    pods: tuple[PodEnd, ...]
    """In the order in which they ended."""
    training: TrainingLog
    seconds: float
    overrides: tuple[Override, ...]
    was_complete: bool = False
    """The workspace held a finished run of this identity, so the pods had nothing to do."""

    @property
    def exit_code(self) -> int:
        return {"Complete": COMPLETE_CODE, "Failed": FAILED_CODE, "Stopped": STOPPED_CODE}[self.status]

    @property
    def committed_step(self) -> int | None:
        """The newest step that is safe, as the pods' last words or rank 0's log have it."""
        said = [message.committed_step for message in self.termination_messages if message.committed_step is not None]
        logged = [] if self.training.committed_step is None else [self.training.committed_step]
        return max(said + logged, default=None)

    @property
    def termination_messages(self) -> list[TerminationMessage]:
        """Those that follow the trainer's contract."""
        found = [termination_message(container) for pod in self.pods for container in pod.containers]
        return [message for message in found if message is not None]


def termination_message(container: ContainerEnd) -> TerminationMessage | None:
    try:
        return TerminationMessage.model_validate_json(container.message)
    except ValidationError:
        return None


def outcome_of(run: Run, training: TrainingLog, seconds: float, overrides: tuple[Override, ...], was_complete: bool) -> Outcome:
    status, reason, message = _status(run)
    return Outcome(status, reason, message, run.pods, training, seconds, overrides, was_complete)


def _status(run: Run) -> tuple[Status, str, str]:
    if run.end is not None:
        return ("Complete" if run.end.type == "Complete" else "Failed"), run.end.reason, run.end.message
    stopped = run.stopped or StopRequest("Unknown", "the rehearsal ended before the Job did")
    return ("Stopped" if stopped.reason == SIGNAL else "Failed"), stopped.reason, stopped.message
