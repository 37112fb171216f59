"""Quarantine: a checkpoint that failed verification is renamed, kept for inspection, and never loaded again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainwright_trainer.checkpoint.layout import CheckpointName, Listing, bad_data_key, bad_record_key, data_key, record_key
from trainwright_trainer.checkpoint.verification import Problem
from trainwright_trainer.checkpoint.volume import Volume


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A checkpoint that was set aside, and why."""

    name: CheckpointName
    problems: tuple[Problem, ...]
    directory: str
    """Where its data is now, if it had any: a path, or an address on an object store."""

    def __str__(self) -> str:
        return f"checkpoint {self.name} is damaged and was set aside: {'; '.join(p.message for p in self.problems)}"


OnQuarantine = Callable[[Quarantined], None]


def quarantine(volume: Volume, name: CheckpointName, problems: tuple[Problem, ...]) -> Quarantined:
    """Rename record and data to ``.bad``, the record first: from then on nobody chooses it. Safe to repeat after a crash."""
    volume.move(record_key(name), bad_record_key(name))
    tree = volume.set_aside(data_key(name), bad_data_key(name))
    return Quarantined(name, problems, volume.location(tree))


def finish_quarantines(volume: Volume) -> None:
    """Rename the data of checkpoints whose quarantine was cut off between record and data."""
    seen = Listing.of(volume)
    for name in set(seen.bad_records) & set(seen.data) - set(seen.records):
        volume.set_aside(data_key(name), bad_data_key(name))
