"""Saving and restoring a run, all ranks together, on top of the commit store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from trainwright_trainer import random_state, tensor_file
from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, Problem, Quarantined
from trainwright_trainer.contract.training import Checkpoints
from trainwright_trainer.engine.base import Engine
from trainwright_trainer.failures import DataError, NoCheckpointError
from trainwright_trainer.lifecycle.link import Link
from trainwright_trainer.log import get_log
from trainwright_trainer.place import Place

_FINGERPRINT = "data_fingerprint"


@dataclass(frozen=True, slots=True)
class Position:
    """How far a run has come. All that the data order needs is ``samples``."""

    step: int = 0
    samples: int = 0


class Checkpointer:
    """Checkpoints of one attempt.

    Args:
        settings: The run's ``checkpoints``.
        identity: Name of the run's objects, for the record.
        attempt: Nonce of this attempt, equal on all ranks.
        fingerprint: Of the data; a checkpoint of other data is refused.
        save_seconds: What a save is expected to take until one was measured.
    """

    def __init__(
        self, settings: Checkpoints, engine: Engine, link: Link, place: Place, *, identity: str, attempt: str, fingerprint: str,
        save_seconds: float,
    ) -> None:
        self._settings, self._engine, self._link, self._place = settings, engine, link, place
        self._identity, self._attempt, self._fingerprint = identity, attempt, fingerprint
        self._store = CheckpointStore(settings.directory)
        self._log = get_log()
        self._measured: float | None = None
        self._expected_seconds = save_seconds
        self.committed_step: int | None = None
        """Newest step that is safe: restored or saved."""

    @property
    def attempt(self) -> str:
        return self._attempt

    @property
    def expected_seconds(self) -> float:
        """What the next save should take: the longest so far in this attempt."""
        return self._expected_seconds if self._measured is None else self._measured

    def restore(self) -> Position:
        """Load the newest checkpoint that verifies, or start at 0 where nothing was ever committed.

        With ``resume: never`` only this identity's own checkpoints count.

        Raises:
            NoCheckpointError: Every checkpoint is damaged, or there is none and ``resume`` is ``required``.
            DataError: It was trained on other data.
        """
        record = self._latest_good()
        if record is None:
            if self._settings.resume != "never":
                self._refuse_to_start_over()
            return Position()
        if record.metadata.get(_FINGERPRINT) != self._fingerprint:
            raise DataError(
                f"the data is not what step {record.step} was trained on (fingerprint {self._fingerprint[:12]}, then "
                f"{str(record.metadata.get(_FINGERPRINT))[:12]}): restore the data, or use a checkpoint directory of its own"
            )
        self._engine.load(lambda file: tensor_file.decode(self._store.path(record, file)))
        if record.world_size == self._place.world_size:
            states = tensor_file.decode(self._store.path(record, _random_file(self._place.rank)))
            random_state.restore(states, self._engine.device)
        self.committed_step = record.step
        self._link.committed(record.step, 0.0)
        if self._place.leads:
            self._log.info(
                "restored", step=record.step, samples=record.samples_consumed, path=str(self._store.directory / str(record.name)),
                from_world_size=record.world_size,
            )
        return Position(record.step, record.samples_consumed)

    def save(self, position: Position) -> None:
        """Write, commit, clean up. On return the checkpoint is committed and every rank knows it.

        Raises:
            StorageError: The volume refused. Nothing was committed then, and the last good checkpoint is untouched.
        """
        started = time.monotonic()
        if self._place.leads:
            self._store.begin(position.step, self._attempt)
        self._engine.broadcast_object(None)  # the directory is there
        draft = self._store.draft(position.step, self._attempt)
        files = {**self._engine.state(), _random_file(self._place.rank): random_state.capture(self._engine.device)}
        digests = [draft.write(name, tensor_file.encode(tensors)) for name, tensors in files.items()]
        everyones = self._engine.gather_objects(digests)
        if self._place.leads:
            self._store.commit(CommitRecord(
                identity=self._identity,
                attempt=self._attempt,
                step=position.step,
                samples_consumed=position.samples,
                world_size=self._place.world_size,
                metadata={_FINGERPRINT: self._fingerprint},
                files=tuple(digest for part in everyones for digest in part),
            ))
        self._engine.broadcast_object(None)  # nobody computes on before the commit is known to be good
        self._committed(position, time.monotonic() - started)

    def _committed(self, position: Position, seconds: float) -> None:
        self._measured = max(seconds, self._measured or 0.0)
        self.committed_step = position.step
        self._link.committed(position.step, seconds)
        if not self._place.leads:
            return
        path = self._store.directory / str(self._store.draft(position.step, self._attempt).name)
        self._log.info("checkpoint_committed", step=position.step, seconds=round(seconds, 3), path=str(path))
        for failure in self._store.retain(self._settings.keep, self._attempt).failures:
            self._log.warning("checkpoint_not_removed", reason=str(failure))

    def _latest_good(self) -> CommitRecord | None:
        """Rank 0 proposes, all ranks verify a share of the bytes, rank 0 sets the damaged aside, until one is good."""
        proposed: Sequence[CommitRecord] = ()
        if self._place.leads:
            proposed = self._store.quarantine_unreadable(self._report_damage)
            if self._settings.resume == "never":  # of another identity, that is: an attempt goes on where the one before it ended
                proposed = [record for record in proposed if record.identity == self._identity]
        for record in self._engine.broadcast_object(proposed):
            problems = self._store.verify(record, rank=self._place.rank, world_size=self._place.world_size)
            found = [problem for part in self._engine.gather_objects(problems) for problem in part]
            found = self._engine.broadcast_object(found)
            if not found:
                return record
            if self._place.leads:
                self._report_damage(self._store.quarantine(record, _one_per_file(found)))
        return None

    def _refuse_to_start_over(self) -> None:
        """What was trained and cannot be read is for a person to give up, in this attempt and in every later one."""
        damaged = [str(name) for name in self._store.quarantined()] if self._place.leads else []
        damaged = self._engine.broadcast_object(damaged)
        directory = self._settings.directory
        if damaged:
            raise NoCheckpointError(
                f"{directory} holds no checkpoint that verifies: {', '.join(damaged)} damaged and set aside; restore one, or "
                "move the directory away to start at step 0"
            )
        if self._settings.resume == "required":
            raise NoCheckpointError(
                f"resume is required and {directory} holds no checkpoint that verifies; restore one, or set resume to auto to "
                "start at step 0"
            )

    def _report_damage(self, quarantined: Quarantined) -> None:
        self._log.warning("checkpoint_quarantined", reason=str(quarantined), path=str(quarantined.directory))


def _random_file(rank: int) -> str:
    return f"rng-{rank}.safetensors"


def _one_per_file(problems: Sequence[Problem]) -> list[Problem]:
    """Several ranks may find the same file damaged; one sentence about it is enough."""
    return list({problem.file: problem for problem in problems}.values())
