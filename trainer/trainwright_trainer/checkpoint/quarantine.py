"""Quarantine: a checkpoint that failed verification is renamed, kept for inspection, and never loaded again."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainwright_trainer.checkpoint.durable import sync_directory
from trainwright_trainer.checkpoint.layout import CheckpointName, Layout
from trainwright_trainer.checkpoint.storage import storage_errors
from trainwright_trainer.checkpoint.verification import Problem


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A checkpoint that was set aside, and why."""

    name: CheckpointName
    problems: tuple[Problem, ...]
    directory: Path
    """Where its data is now, if it had any."""

    def __str__(self) -> str:
        return f"checkpoint {self.name} is damaged and was set aside: {'; '.join(p.message for p in self.problems)}"


OnQuarantine = Callable[[Quarantined], None]


def quarantine(layout: Layout, name: CheckpointName, problems: tuple[Problem, ...]) -> Quarantined:
    """Rename record and data to ``.bad``, the record first: from then on nobody chooses it. Safe to repeat after a crash."""
    _rename(layout.record(name), layout.bad_record(name))
    _rename(layout.data(name), layout.bad_data(name))
    return Quarantined(name, problems, layout.bad_data(name))


def finish_quarantines(layout: Layout) -> None:
    """Rename the data of checkpoints whose quarantine was cut off between record and data."""
    for name in set(layout.bad_records()) - set(layout.bad_directories()) - set(layout.committed()):
        _rename(layout.data(name), layout.bad_data(name))


def _rename(source: Path, target: Path) -> None:
    with storage_errors("set aside", source), suppress(FileNotFoundError):  # another rank or an earlier try did it
        os.rename(source, target)
        sync_directory(source.parent)
