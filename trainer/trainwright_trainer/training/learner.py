"""Learner: what the loop of a replicated run drives, and its position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trainwright_trainer.checkpoint.store import Piece


@dataclass(frozen=True, slots=True)
class Position:
    """How far a run has come. All that the data order needs is ``samples``."""

    step: int = 0
    samples: int = 0


Metadata = Mapping[str, Any]
"""Small values that go into the commit record; what JSON can hold."""


class Learner(Protocol):
    """A model that learns step by step, whole and equal on every rank. All ranks make the same calls in the same order."""

    @property
    def position(self) -> Position:
        """Steps finished, and samples consumed by the whole run."""

    @property
    def target_samples(self) -> int:
        """Samples after which the run is done at the latest."""

    @property
    def step_samples(self) -> int:
        """Samples of the whole run that one step consumes."""

    @property
    def done(self) -> bool:
        """Whether the target is reached."""

    def state(self) -> tuple[Mapping[str, Iterable[Piece]], Metadata]:
        """A checkpoint's files by name, in pieces, and what its record says besides. Asked of rank 0 alone: no collective."""

    def load(self, files: Mapping[str, bytes], metadata: Metadata, at: Position) -> None:
        """Take over a checkpoint's state. Raises :class:`InvalidRunError` where it is another model's or optimizer's."""

    def warm_up(self) -> None:
        """Call once, after :meth:`load` and before the first step; changes nothing."""

    def step(self) -> None:
        """One step, and the report of it where one is due.

        Raises:
            DivergedError: This step, or the one before it, is not finite.
        """

    def check(self) -> None:
        """Raise :class:`DivergedError` if the last step is not finite. Called before anything is saved."""

    def evaluate(self, before_batch: Callable[[], None]) -> None:
        """Score the held-out data and report it; ``before_batch`` is called before each batch, equally often on all ranks."""

    def publish(self) -> None:
        """After the final commit, on rank 0: write what people take away from the run, if there is such a thing."""
