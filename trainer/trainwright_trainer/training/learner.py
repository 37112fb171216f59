"""Learner: what the loop drives, whichever library trains. No torch in here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, CommittedFiles, Draft, FileDigest, Piece, Snapshot
from trainwright_trainer.checkpoint.storage import storage_errors

Metadata = Mapping[str, Any]
"""Small values that go into the commit record; what JSON can hold."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a run has come. All that the data order needs is ``samples``."""

    step: int = 0
    samples: int = 0


class Restored(CommittedFiles):
    """A verified checkpoint that a learner is about to take over.

    Args:
        store: Where it is.
        record: Of the checkpoint.
        by_rank_0: Calls a function on rank 0 and gives its result to every rank.
    """

    def __init__(
        self, store: CheckpointStore, record: CommitRecord, by_rank_0: Callable[[Callable[[], bytes]], bytes]
    ) -> None:
        super().__init__(store, record)
        self._by_rank_0 = by_rank_0
        self.metadata: Metadata = record.metadata
        self.position = Position(record.step, record.samples_consumed)

    def read(self, name: str) -> bytes:
        """A file's bytes, which rank 0 alone reads. All ranks call it together. Raises :class:`StorageError`."""

        def read_here() -> bytes:
            path = self.path(name)
            with storage_errors("read", path):
                return path.read_bytes()

        return self._by_rank_0(read_here)


class StateSnapshot:
    """Snapshot of a learner that every rank holds whole: rank 0 is asked for its files when they are written, and not before."""

    def __init__(self, files: Callable[[], Mapping[str, Iterable[Piece]]]) -> None:
        self._files = files

    def reserve(self) -> None:
        self.hold()

    def hold(self) -> None:
        raise NotImplementedError("this state cannot be kept while training goes on")

    def write(self, draft: Draft) -> list[FileDigest]:
        return [draft.write(name, pieces) for name, pieces in self._files().items()]


class Learner(Protocol):
    """A model that learns step by step. All ranks make the same calls in the same order."""

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

    @property
    def saves_in_background(self) -> bool:
        """Whether training may go on while a snapshot that is held is written."""

    @property
    def evaluates_before_saving(self) -> bool:
        """Whether an evaluation comes before a save of the same step. Elsewhere it follows the save, or goes on beside
        it."""

    def metadata(self) -> Metadata:
        """What the commit record says of the state now, besides its files."""

    def snapshots(self) -> Sequence[Snapshot]:
        """All that this rank has to write of the state now, valid until the next call of this learner unless it is held."""

    def initialise(self) -> None:
        """Give the model its first values, where there is no checkpoint to :meth:`load`."""

    def load(self, checkpoint: Restored) -> None:
        """Take over a checkpoint's state. Raises :class:`InvalidRunError` where it is another model's or optimizer's."""

    def warm_up(self) -> None:
        """Call once, after :meth:`load` or :meth:`initialise` and before the first step; changes nothing."""

    def step(self) -> None:
        """One step, and the report of it where one is due.

        Raises:
            DivergedError: This step, or the one before it, is not finite.
        """

    def stalled(self, seconds: float) -> None:
        """Hear how long a periodic save has kept it from training, and report it where that is not all of the save."""

    def check(self) -> None:
        """Raise :class:`DivergedError` if the last step is not finite. Called before anything is saved."""

    def evaluate(self, before_batch: Callable[[], None]) -> None:
        """Score the held-out data and report it; ``before_batch`` is called before each batch, equally often on all ranks."""

    def publish(self) -> None:
        """After the final commit, on rank 0: write what people take away from the run, if there is such a thing."""

    def close(self) -> None:
        """Leave the other ranks in order. The last thing that is done."""
