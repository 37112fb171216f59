"""What can be observed of a rehearsal while it runs: events of its pods, and what rank 0's log says of the training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.operators.ending import Decision, PodEnd
from trainwright.rehearsal.differences import Difference
from trainwright.rehearsal.setting import Setting
from trainwright.rehearsal.stated.pod import Pod

WARNING_LEVELS = ("warning", "error", "critical")


@dataclass(frozen=True, slots=True)
class Event:
    """One log line of the trainer."""

    name: str
    level: str
    fields: dict[str, Any]

    @property
    def is_warning(self) -> bool:
        return self.level in WARNING_LEVELS

    def number(self, key: str) -> float | None:
        value = self.fields.get(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    @property
    def text(self) -> str:
        """The event and its fields, for a person to read."""
        hidden = ("ts", "level", "event", "run", "identity", "attempt", "node", "rank")
        facts = [f"{key} {value}" for key, value in self.fields.items() if key not in hidden and value not in (None, "")]
        return ", ".join([self.name.replace("_", " "), *facts])


def parse_event(line: str) -> Event | None:
    """The event in a line; None for any other text."""
    if not line.startswith("{"):
        return None
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("event"), str):
        return None
    return Event(fields["event"], str(fields.get("level", "info")), fields)


@dataclass(slots=True)
class TrainingLog:
    """How far the training is, by the log of rank 0."""

    step: int | None = None
    samples: float | None = None
    target_samples: float | None = None
    global_batch: int | None = None
    world_size: int | None = None
    first_loss: float | None = None
    last_loss: float | None = None
    samples_per_second: float | None = None
    accuracy: float | None = None
    held_out_loss: float | None = None
    restored_step: int | None = None
    committed_step: int | None = None
    checkpoint: str | None = None
    """Folder on this machine of the newest committed checkpoint."""
    first_step: int | None = None
    """The step of the first loss."""

    def take(self, event: Event) -> None:
        """Note what an event says."""
        match event.name:
            case "run_started":
                self._read(event, "step", "global_batch", "world_size")
                self.samples, self.target_samples = event.number("samples"), event.number("target_samples")
            case "step":
                self._read(event, "step")
                self.samples, self.last_loss = event.number("samples"), event.number("loss")
                self.samples_per_second = event.number("samples_per_second")
                if self.first_loss is None:
                    self.first_loss, self.first_step = self.last_loss, self.step
            case "evaluated":
                self.accuracy, self.held_out_loss = event.number("accuracy"), event.number("loss")
            case "restored":
                self.restored_step = self.committed_step = _whole(event.number("step"))
                self.checkpoint = _text(event.fields.get("path"))
            case "checkpoint_committed":
                self.committed_step = _whole(event.number("step"))
                self.checkpoint = _text(event.fields.get("path"))

    def _read(self, event: Event, *names: str) -> None:
        for name in names:
            setattr(self, name, _whole(event.number(name)))


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known before the first pod."""

    setting: Setting
    size: str
    """How many pods of how many, and what follows for ranks and batch."""
    differences: tuple[Difference, ...]
    was_complete: bool
    """The workspace holds a finished run of this identity: the pods will have nothing to do."""
    training: TrainingLog
    """Kept up to date while the rehearsal goes on."""


class Observer:
    """Is told what happens, and does nothing with it: a subclass overrides what it wants to know."""

    def opened(self, opening: Opening) -> None:
        """All checks have passed."""

    def pod_started(self, pod: Pod) -> None:
        """Its containers run."""

    def pod_ready(self, pod: Pod) -> None:
        """Its readiness probes have passed for the first time."""

    def container_restarts(self, pod: Pod) -> None:
        """The kubelet starts one of its containers again."""

    def pod_served(self, pod: Pod, values: Mapping[str, float]) -> None:
        """What its supervisor says at ``/metrics`` now."""

    def pod_event(self, pod: Pod, text: str) -> None:
        """What ``kubectl describe pod`` would show as an event: a failed probe, a container that is killed."""

    def log_line(self, pod: Pod, container: str, line: str) -> None:
        """A line of a container's output that is not an event, without its line ending."""

    def log_event(self, pod: Pod, container: str, event: Event) -> None:
        """A JSON line of the trainer's log."""

    def pod_ended(self, pod: Pod, end: PodEnd) -> None:
        """None of its processes is left."""

    def decided(self, end: PodEnd, decision: Decision, delay_seconds: float) -> None:
        """What the Job controller makes of a pod's end."""

    def disturbed(self, what: str) -> None:
        """A fault was made."""

    def comparing(self) -> None:
        """The same run is played again, without faults."""

    def stopping(self, reason: str) -> None:
        """All pods are told to end."""
