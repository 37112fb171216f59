"""One line for each pod of a rehearsal: what it does, how far it is and how fast, and how often it was started again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainwright.rehearsal.stated.objects import Slot
from trainwright.report.screen import columns

COLUMNS = ("pod", "phase", "step", "rate", "restarts")


@dataclass(slots=True)
class Row:
    """Of the place that pods fill one after the other."""

    name: str
    phase: str = "Pending"
    step: int | None = None
    step_seconds: float | None = None
    pods: int = 0
    """Those that were started here."""
    containers: int = 0
    """Those that the kubelet has started again."""

    def cells(self, steps: int | None) -> list[str]:
        step = "-" if self.step is None else f"{self.step}{f' of {steps}' if steps else ''}"
        trains = self.step_seconds and self.phase in ("Running", "Ready")
        rate = f"{1 / self.step_seconds:.3g} steps/s" if trains and self.step_seconds else "-"
        return [self.name, self.phase, step, rate, str(max(self.pods - 1, 0) + self.containers)]


class PodTable:
    def __init__(self, slots: Iterable[Slot]) -> None:
        self._rows = {slot.number: Row(slot.name) for slot in slots}

    def __getitem__(self, slot: Slot) -> Row:
        return self._rows[slot.number]

    def started(self, slot: Slot) -> None:
        row = self[slot]
        row.phase, row.pods, row.step_seconds = "Running", row.pods + 1, None

    def served(self, slot: Slot, values: Mapping[str, float]) -> None:
        """What its supervisor says at ``/metrics``."""
        row = self[slot]
        row.step = int(values["step"]) if "step" in values else row.step
        row.step_seconds = values.get("step_seconds") or row.step_seconds

    def stopping(self) -> None:
        for row in self._rows.values():
            row.phase = "Terminating" if row.phase in ("Running", "Ready") else row.phase

    def lines(self, steps: int | None) -> list[str]:
        return columns([COLUMNS, *(row.cells(steps) for row in self._rows.values())], len(COLUMNS))
