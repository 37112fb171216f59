"""One start of the run in a proof, and what its ranks said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord
from trainwright_trainer.commands.local.pod import Event
from trainwright_trainer.training.witness import StepSamples, read_account


class Seen(NamedTuple):
    """A sample as a rank was fed it."""

    position: int
    """In the run's endless stream."""
    id: int
    content: str


@dataclass(frozen=True, slots=True)
class Leg:
    """What happened, told by those to whom it happened."""

    processes: int
    checkpoints: Path
    samples: Mapping[int, tuple[Seen, ...]]
    """Step -> what all ranks together computed it from, by position. Steps that every rank told of."""
    losses: Mapping[int, float]
    """Step -> mean loss, with the six digits that are logged."""
    restored_step: int | None
    """Where it began; None at the start."""

    @property
    def commits(self) -> tuple[CommitRecord, ...]:
        """Those in its directory as it is now, newest first."""
        return CheckpointStore(self.checkpoints).records()

    @property
    def newest(self) -> CommitRecord | None:
        return next(iter(self.commits), None)


def read_leg(processes: int, checkpoints: Path, witnesses: Path, events: Sequence[Event]) -> Leg:
    """Put together what the ranks wrote and what they logged."""
    restored = [int(event["step"]) for event in events if event["event"] == "restored"]
    return Leg(
        processes=processes,
        checkpoints=checkpoints,
        samples=_samples([read_account(witnesses, rank, StepSamples) for rank in range(processes)]),
        losses={int(event["step"]): float(event["loss"]) for event in events if event["event"] == "step"},
        restored_step=restored[0] if restored else None,
    )


def _samples(accounts: Sequence[Sequence[StepSamples]]) -> dict[int, tuple[Seen, ...]]:
    by_rank = [{account.step: account for account in each} for each in accounts]
    steps = set.intersection(*(set(each) for each in by_rank)) if by_rank else set[int]()
    found = {}
    for step in sorted(steps):
        parts = [each[step] for each in by_rank]
        seen = [
            Seen(*row) for part in parts for row in zip(part.positions, part.ids, part.contents, strict=True)
        ]
        found[step] = tuple(sorted(seen))
    return found
