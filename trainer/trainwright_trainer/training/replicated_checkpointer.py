"""Saving and restoring a replicated run: rank 0 reads, writes and decides, the others are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, Lease, Quarantined, StorageError
from trainwright_trainer.checkpoint.storage import storage_errors
from trainwright_trainer.contract.failures import own_code
from trainwright_trainer.contract.training import Checkpoints
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.ending import warn_of_slow_save
from trainwright_trainer.rank.group import Group
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training import resume
from trainwright_trainer.training.learner import Learner, Position
from trainwright_trainer.training.resume import become_writer

T = TypeVar("T")

_FINGERPRINT = "data_fingerprint"


@dataclass(frozen=True, slots=True)
class _Found:
    """A verified checkpoint in memory, to hand to every rank."""

    record: CommitRecord
    files: dict[str, bytes]


class Checkpointer:
    """Checkpoints of one attempt.

    Args:
        settings: The run's ``checkpoints``.
        identity: Name of the run's objects, for the record.
        attempt: Nonce of this attempt, equal on all ranks.
        fingerprint: Of the data; a checkpoint of other data is refused.
        save_seconds: What a save is expected to take until one was measured.
        grace_seconds: How long an attempt before this one may still be saving.
        resume_before: Step whose commits are the last to be tried (:mod:`candidates`).
    """

    def __init__(
        self, settings: Checkpoints, group: Group, link: Link, place: Place, *, identity: str, attempt: str, fingerprint: str,
        save_seconds: float, grace_seconds: float, resume_before: int | None,
    ) -> None:
        self._settings, self._group, self._link, self._place = settings, group, link, place
        self._identity, self._attempt, self._fingerprint = identity, attempt, fingerprint
        self._resume_before = resume_before
        self._store = CheckpointStore(settings.directory)
        self._log = get_log()
        self._measured: float | None = None
        self._expected_seconds, self._grace_seconds = save_seconds, grace_seconds
        self._lease: Lease | None = None
        self.committed_step: int | None = None
        """Newest step that is safe: restored or saved."""

    @property
    def attempt(self) -> str:
        return self._attempt

    @property
    def expected_seconds(self) -> float:
        """What the next save should take: the longest so far in this attempt."""
        return self._expected_seconds if self._measured is None else self._measured

    def restore(self, learner: Learner) -> None:
        """Load the newest checkpoint that verifies, or leave the learner at step 0 where nothing was ever committed.

        An attempt that is to pass over the newest takes one of an earlier step, if any verifies. With ``resume: never`` only this
        identity's own checkpoints count.

        Raises:
            NoCheckpointError: Every checkpoint is damaged, or there is none and ``resume`` is ``required``.
            DataError: It was trained on other data.
        """
        found = self._by_rank_0(self._find)
        if found is None:
            return
        record = found.record
        learner.load(found.files, record.metadata, Position(record.step, record.samples_consumed))
        self.committed_step = record.step
        self._link.committed(record.step, 0.0)
        if self._place.leads:
            self._log.info(
                "restored", step=record.step, samples=record.samples_consumed, path=self._store.location(record.name),
                from_world_size=record.world_size,
            )

    def save(self, learner: Learner) -> None:
        """Write, commit, clean up. On return the checkpoint is committed and every rank knows it.

        Raises:
            StorageError: The volume refused. Nothing was committed then, and the last good checkpoint is untouched.
        """
        started, at = time.monotonic(), learner.position

        def write() -> None:
            try:
                commit()
            except StorageError:
                if self._lease is not None:
                    self._lease.check()  # whoever took over may have removed what this attempt was writing: that is the reason
                raise

        def commit() -> None:
            files, metadata = learner.state()
            draft = self._store.begin(at.step, self._attempt)
            self._store.commit(CommitRecord(
                identity=self._identity,
                attempt=self._attempt,
                step=at.step,
                samples_consumed=at.samples,
                world_size=self._place.world_size,
                metadata={**metadata, _FINGERPRINT: self._fingerprint},
                files=tuple(draft.write(name, pieces) for name, pieces in files.items()),
            ))

        self._by_rank_0(write)  # nobody computes on before the commit is known to be good
        self._committed(at, time.monotonic() - started)

    def _committed(self, at: Position, seconds: float) -> None:
        self._measured = max(seconds, self._measured or 0.0)
        self.committed_step = at.step
        self._link.committed(at.step, seconds)
        if not self._place.leads:
            return
        path = self._store.location(self._store.draft(at.step, self._attempt).name)
        self._log.info("checkpoint_committed", step=at.step, seconds=round(seconds, 3), path=path)
        warn_of_slow_save(seconds, self._grace_seconds)
        for failure in self._store.retain(self._settings.keep, self._attempt).failures:
            self._log.warning("checkpoint_not_removed", reason=str(failure))

    def close(self) -> None:
        """Let the next attempt begin at once."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        self._store.close()

    def _by_rank_0(self, act: Callable[[], T]) -> T:
        """Its result, or the error that it ends with, on every rank; so all end with the same code and sentence."""
        result: T | None = None
        refusal: Exception | None = None
        if self._place.leads:
            try:
                result = act()
            except Exception as error:
                if own_code(error) is None:
                    raise
                refusal = error
        result, refusal = self._group.broadcast((result, refusal))
        if refusal is not None:
            raise refusal
        return cast("T", result)

    def _find(self) -> _Found | None:
        """The first candidate that verifies; damaged ones on the way are set aside."""
        self._lease = become_writer(self._store, self._identity, self._attempt, self._grace_seconds)
        proposed: Sequence[CommitRecord] = self._store.quarantine_unreadable(self._report_damage)
        if self._settings.resume == "never":  # of another identity, that is: an attempt goes on where the one before it ended
            proposed = [record for record in proposed if record.identity == self._identity]
        for record in resume.in_order(proposed, self._resume_before):
            problems = self._store.verify(record)
            if not problems:
                resume.tell_passed_over(proposed, record, self._resume_before)
                resume.refuse_other_data(record.step, record.metadata.get(_FINGERPRINT), self._fingerprint)
                return _Found(record, {file.name: _read(self._store.path(record, file.name)) for file in record.files})
            self._report_damage(self._store.quarantine(record, problems))
        if self._settings.resume != "never":
            resume.refuse_to_start_over(self._settings, [str(name) for name in self._store.quarantined()])
        return None

    def _report_damage(self, quarantined: Quarantined) -> None:
        self._log.warning("checkpoint_quarantined", reason=str(quarantined), path=str(quarantined.directory))


def _read(path: Path) -> bytes:
    with storage_errors("read", path):
        return path.read_bytes()
