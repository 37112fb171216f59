"""Observer: who is told what happens in a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.rehearsal.job_status import Decision
from trainwright.rehearsal.override import Override
from trainwright.rehearsal.pod import Pod
from trainwright.rehearsal.pod_end import PodEnd
from trainwright.rehearsal.setting import Setting
from trainwright.rehearsal.training_log import Event, TrainingLog


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known before the first pod."""

    setting: Setting
    overrides: tuple[Override, ...]
    was_complete: bool
    """The workspace holds a finished run of this identity: the pods will have nothing to do."""
    training: TrainingLog
    """Kept up to date while the rehearsal goes on."""


class Observer:
    """Does nothing; whoever wants to know overrides."""

    def opened(self, opening: Opening) -> None:
        """All checks have passed."""

    def pod_started(self, pod: Pod) -> None:
        """Its containers run."""

    def pod_ready(self, pod: Pod) -> None:
        """Its readiness probes have passed for the first time."""

    def pod_event(self, pod: Pod, text: str) -> None:
        """What ``kubectl describe pod`` would show as an event: a failed probe, a container that is killed."""

    def log_line(self, pod: Pod, container: str, line: str) -> None:
        """A line of a container's output that is no event, without its end."""

    def log_event(self, pod: Pod, container: str, event: Event) -> None:
        """A JSON line of the trainer's log."""

    def pod_ended(self, pod: Pod, end: PodEnd) -> None:
        """None of its processes is left."""

    def decided(self, end: PodEnd, decision: Decision, delay_seconds: float) -> None:
        """What the Job controller makes of a pod's end."""

    def stopping(self, reason: str) -> None:
        """All pods are told to end."""
