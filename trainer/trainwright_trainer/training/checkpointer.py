"""Saving and restoring a run, all ranks together, on top of the commit store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from trainwright_trainer.checkpoint import (
    CheckpointStore,
    CommitRecord,
    Lease,
    Problem,
    Quarantined,
    Snapshot,
    StorageError,
    tensor_file,
)
from trainwright_trainer.checkpoint.store import CommittedFiles
from trainwright_trainer.contract.training import Checkpoints
from trainwright_trainer.engine.base import Engine, TensorSnapshot
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank import random_state
from trainwright_trainer.rank.ending import warn_of_slow_save
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training import resume
from trainwright_trainer.training.learner import Position
from trainwright_trainer.training.resume import become_writer

_FINGERPRINT = "data_fingerprint"


class Checkpointer:
    """Checkpoints of one attempt.

    Periodic saves are written by a thread while training goes on, one at a time: the next one waits for it. What the thread says
    to the other ranks goes through a group of its own. A failure comes up in the main thread, in :meth:`poll` or
    :meth:`finish`.

    Args:
        settings: The run's ``checkpoints``.
        identity: Name of the run's objects, for the record.
        attempt: Nonce of this attempt, equal on all ranks.
        fingerprint: Of the data; a checkpoint of other data is refused.
        metadata: What else the records say.
        save_seconds: What a save is expected to take until one was measured.
        grace_seconds: How long an attempt before this one may still be saving.
        resume_before: Step whose commits are the last to be tried (:mod:`candidates`).
    """

    def __init__(
        self, settings: Checkpoints, engine: Engine, link: Link, place: Place, *, identity: str, attempt: str, fingerprint: str,
        metadata: Mapping[str, JsonValue], save_seconds: float, grace_seconds: float, resume_before: int | None,
    ) -> None:
        self._settings, self._engine, self._link, self._place = settings, engine, link, place
        self._identity, self._attempt, self._fingerprint = identity, attempt, fingerprint
        self._metadata = {**metadata, _FINGERPRINT: fingerprint}
        self._resume_before = resume_before
        self._store = CheckpointStore(settings.directory)
        self._log = get_log()
        self._group = engine.world.new_group()
        self._saving: Saving | None = None
        self._measured: float | None = None
        self._expected_seconds, self._grace_seconds = save_seconds, grace_seconds
        self._lease: Lease | None = None
        self.committed_step: int | None = None
        """Newest step that is safe: restored or saved, as far as :meth:`poll` and :meth:`finish` have seen."""
        self.begun_step = 0
        """Newest step that is safe or on its way there; the same on all ranks at the same place of the run."""

    @property
    def attempt(self) -> str:
        return self._attempt

    @property
    def expected_seconds(self) -> float:
        """What the next save should take: the longest so far in this attempt."""
        return self._expected_seconds if self._measured is None else self._measured

    @property
    def seconds_to_go(self) -> float:
        """What is left of the save under way, if there is one."""
        return 0.0 if self._saving is None else max(0.0, self.expected_seconds - self._saving.age)

    def restore(self) -> Position:
        """Load the newest checkpoint that verifies, or start at 0 where nothing was ever committed.

        An attempt that is to pass over the newest takes one of an earlier step, if any verifies. With ``resume: never`` only this
        identity's own checkpoints count.

        Raises:
            NoCheckpointError: Every checkpoint is damaged, or there is none and ``resume`` is ``required``.
            DataError: It was trained on other data.
            LeaseLostError: A newer attempt began meanwhile.
        """
        if self._place.leads:
            self._lease = become_writer(self._store, self._identity, self._attempt, self._grace_seconds)
        record = self._latest_good()
        if record is None:
            if self._settings.resume != "never":
                self._refuse_to_start_over()
            return Position()
        resume.refuse_other_data(record.step, record.metadata.get(_FINGERPRINT), self._fingerprint)
        self._engine.load(CommittedFiles(self._store, record))
        if record.world_size == self._place.world_size:
            states = tensor_file.decode(self._store.path(record, _random_file(self._place.rank)))
            random_state.restore(states, self._engine.world.device)
        self.committed_step = self.begun_step = record.step
        self._link.committed(record.step, 0.0)
        if self._place.leads:
            self._log.info(
                "restored", step=record.step, samples=record.samples_consumed, path=self._store.location(record.name),
                from_world_size=record.world_size,
            )
        return Position(record.step, record.samples_consumed)

    def begin(self, position: Position) -> float:
        """Start to save, after the save before it is finished. Gives the seconds for which training stood still.

        Raises:
            StorageError: The volume refused, this time or the time before.
        """
        started = time.monotonic()
        self.finish()
        self.begun_step = position.step
        snapshots = self._snapshots()
        saving = self._saving = Saving(position, lambda: self._write(position, snapshots))
        if self._engine.capabilities.saves_in_background and self._settings.save != "blocking":
            for snapshot in snapshots:
                snapshot.hold()
            saving.start()
        else:
            saving.run()
            self.finish()
        return time.monotonic() - started

    def poll(self) -> None:
        """Take note of a save that has ended. Raises as :meth:`begin` does."""
        if self._saving is not None and self._saving.done:
            self.finish()

    def finish(self) -> None:
        """Wait for the save under way. On return its checkpoint is committed and this rank knows it. Raises as :meth:`begin`."""
        if self._saving is None:
            return
        saving, self._saving = self._saving, None
        self._conclude(saving)

    def _conclude(self, saving: Saving) -> None:
        try:
            seconds = saving.result()
        except StorageError:
            if self._lease is not None:
                self._lease.check()  # whoever took over may have removed what this attempt was writing: that is the reason then
            raise
        self._committed(saving.position, seconds)

    def save(self, position: Position) -> None:
        """Write, commit, clean up. On return the checkpoint is committed and every rank knows it.

        Raises:
            StorageError: The volume refused. Nothing was committed then, and the last good checkpoint is untouched.
        """
        self.finish()
        self.begun_step = position.step
        saving = Saving(position, lambda: self._write(position, self._snapshots()))
        saving.run()
        self._conclude(saving)

    def close(self) -> None:
        """Let the next attempt begin, after the last save."""
        if self._lease is not None:
            self._lease.release()
        self._store.close()

    def _snapshots(self) -> list[Snapshot]:
        """All that this rank has to write."""
        random = {_random_file(self._place.rank): random_state.capture(self._engine.world.device)}
        return [self._engine.snapshot(), TensorSnapshot(random)]

    def _write(self, position: Position, snapshots: Sequence[Snapshot]) -> None:
        """All ranks together, through the group for saves; maybe in a thread."""
        if self._place.leads:
            self._store.begin(position.step, self._attempt)
        self._group.broadcast_object(None)  # the directory is there
        draft = self._store.draft(position.step, self._attempt)
        digests = [digest for snapshot in snapshots for digest in snapshot.write(draft)]
        everyones = self._group.gather_objects(digests)
        if self._place.leads:
            self._store.commit(CommitRecord(
                identity=self._identity,
                attempt=self._attempt,
                step=position.step,
                samples_consumed=position.samples,
                world_size=self._place.world_size,
                metadata=self._metadata,
                files=tuple(digest for part in everyones for digest in part),
            ))
            self._clean_up(position)
        self._group.broadcast_object(None)  # the commit is known to be good

    def _clean_up(self, position: Position) -> None:
        for failure in self._store.retain(self._settings.keep, self._attempt).failures:
            self._log.warning("checkpoint_not_removed", step=position.step, reason=str(failure))

    def _committed(self, position: Position, seconds: float) -> None:
        self._measured = max(seconds, self._measured or 0.0)
        self.committed_step = position.step
        self._link.committed(position.step, seconds)
        if self._place.leads:
            path = self._store.location(self._store.draft(position.step, self._attempt).name)
            self._log.info("checkpoint_committed", step=position.step, seconds=round(seconds, 3), path=path)
            warn_of_slow_save(seconds, self._grace_seconds)

    def _latest_good(self) -> CommitRecord | None:
        """Rank 0 proposes, all ranks verify a share of the bytes, rank 0 sets the damaged aside, until one is good."""
        proposed: Sequence[CommitRecord] = ()
        if self._place.leads:
            proposed = self._store.quarantine_unreadable(self._report_damage)
            if self._settings.resume == "never":  # of another identity, that is: an attempt goes on where the one before it ended
                proposed = [record for record in proposed if record.identity == self._identity]
            proposed = resume.in_order(proposed, self._resume_before)
        for record in self._engine.world.control.broadcast_object(proposed):
            problems = self._store.verify(record, rank=self._place.rank, world_size=self._place.world_size)
            found = [problem for part in self._engine.world.control.gather_objects(problems) for problem in part]
            found = self._engine.world.control.broadcast_object(found)
            if not found:
                if self._place.leads:
                    resume.tell_passed_over(proposed, record, self._resume_before)
                return record
            if self._place.leads:
                self._report_damage(self._store.quarantine(record, _one_per_file(found)))
        return None

    def _refuse_to_start_over(self) -> None:
        damaged = [str(name) for name in self._store.quarantined()] if self._place.leads else []
        resume.refuse_to_start_over(self._settings, self._engine.world.control.broadcast_object(damaged))

    def _report_damage(self, quarantined: Quarantined) -> None:
        self._log.warning("checkpoint_quarantined", reason=str(quarantined), path=str(quarantined.directory))


def _random_file(rank: int) -> str:
    return f"rng-{rank}.safetensors"


def _one_per_file(problems: Sequence[Problem]) -> list[Problem]:
    """Several ranks may find the same file damaged; one sentence about it is enough."""
    return list({problem.file: problem for problem in problems}.values())


class Saving:
    """A function that is called once, and whose failure waits for somebody who asks."""

    def __init__(self, position: Position, write: Callable[[], None]) -> None:
        self.position = position
        self._write = write
        self._began = time.monotonic()
        self._seconds = 0.0
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    @property
    def done(self) -> bool:
        """Whether :meth:`result` need not wait."""
        return self._thread is None or not self._thread.is_alive()

    def start(self) -> None:
        """Run in a thread, which does not keep a process that ends."""
        self._thread = threading.Thread(target=self.run, name="checkpoint", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Run here and now. Never raises."""
        try:
            self._write()
        except BaseException as error:
            self._error = error
        self._seconds = self.age

    def result(self) -> float:
        """Wait for the end; gives the seconds from first to last, and raises what went wrong."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._seconds
