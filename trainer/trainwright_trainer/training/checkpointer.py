"""Saving and restoring a run on top of the commit store, in step with training or beside it. No torch in here."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar, cast

from trainwright_trainer.checkpoint import (
    CheckpointStore,
    CommitRecord,
    Corruption,
    Draft,
    FileDigest,
    Lease,
    Quarantined,
    Snapshot,
    StorageError,
    read_complete,
)
from trainwright_trainer.checkpoint.keeper import in_order, refuse_to_start_over
from trainwright_trainer.checkpoint.volume import CheckpointName
from trainwright_trainer.contract.failures import own_code
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.training import Checkpoints
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.ending import warn_of_slow_save
from trainwright_trainer.rank.group import Group
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training import start
from trainwright_trainer.training.learner import Learner, Metadata, Position, Restored

T = TypeVar("T")
_FINGERPRINT = "data_fingerprint"
_NICER = 10
"""Of a thread that saves beside training: with as many ranks as processors it would take a step's time from all of them."""


class Division(Protocol):
    """How the ranks of a run divide the work on a checkpoint. All ranks make the same calls in the same order.

    What one rank fails with, every rank raises: all have the same code and sentence, and know as one whether a save failed.
    """

    @property
    def share(self) -> tuple[int, int]:
        """Of what is divided: which part is this rank's, and of how many."""

    def on_rank_0(self, act: Callable[[], T]) -> T:
        """Rank 0 acts; every rank gets its result, and none goes on before it is there."""

    def on_each(self, act: Callable[[], list[T]]) -> list[T]:
        """Each rank that has a share acts; rank 0 gets all results, in the order of ranks."""


class EveryRank:
    """Each rank verifies a share of the bytes and writes files of its own."""

    def __init__(self, place: Place, group: Group) -> None:
        self._place, self._group = place, group

    @property
    def share(self) -> tuple[int, int]:
        return self._place.rank, self._place.world_size

    def on_rank_0(self, act: Callable[[], T]) -> T:
        result, refusal = self._group.broadcast(_tried(act) if self._place.leads else (None, None))
        if refusal is not None:
            raise refusal
        return cast("T", result)

    def on_each(self, act: Callable[[], list[T]]) -> list[T]:
        parts = self._group.gather(_tried(act))
        refusal = self._group.broadcast(next((refusal for _, refusal in parts if refusal is not None), None))
        if refusal is not None:
            raise refusal
        return [result for results, _ in parts for result in results or []]


class Rank0Alone(EveryRank):
    """Rank 0 reads, writes and decides."""

    share = (0, 1)

    def on_each(self, act: Callable[[], list[T]]) -> list[T]:
        return self.on_rank_0(act)


def _tried(act: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """The result, or the error of our own instead of it. An error that nobody foresaw ends the rank that has it."""
    try:
        return act(), None
    except Exception as error:
        if own_code(error) is None:
            raise
        return None, error


class Checkpointer:
    """Checkpoints of one attempt.

    Where the learner can be saved in the background, periodic saves are written by a thread while training goes on, one at a
    time: the next one waits for it. A failure comes up in the main thread, in :meth:`poll` or :meth:`finish`; as many in a row as
    the run allows are logged, and training goes on.

    Args:
        spec: Of the run, for its identity and its grace period, and for what a save is expected to take until one was measured.
        settings: The run's ``checkpoints``.
        learner: What is saved.
        link: To the supervisor.
        place: This rank.
        reading: Who reads and verifies.
        writing: Who writes; through a group of its own where saves go on beside training.
        attempt: Nonce of this attempt, equal on all ranks.
        fingerprint: Of the data; a checkpoint of other data is refused.
        resume_before: Step whose commits are the last to be tried (:mod:`start`).
    """

    def __init__(
        self, spec: RunSpec, settings: Checkpoints, learner: Learner, link: Link, place: Place, *, reading: Division,
        writing: Division, attempt: str, fingerprint: str, resume_before: int | None,
    ) -> None:
        self._spec, self._settings, self._learner, self._link, self._place = spec, settings, learner, link, place
        self._reading, self._writing = reading, writing
        self.attempt, self._fingerprint, self._resume_before = attempt, fingerprint, resume_before
        self._store = CheckpointStore(settings.directory)
        self._log = get_log()
        self._saving: Saving | None = None
        self._measured: float | None = None
        self._lease: Lease | None = None
        self._reserving: threading.Thread | None = None
        self.committed_step: int | None = None
        """Newest step that is safe: restored or saved, as far as :meth:`poll` and :meth:`finish` have seen."""
        self.begun_step = 0
        """Newest step that is safe, on its way there, or failed; the same on all ranks at the same place of the run."""
        self.failed_saves = 0
        """Of this attempt, as far as they were seen."""
        self._failed_in_a_row = 0

    @property
    def expected_seconds(self) -> float:
        """What the next save should take: as long as the last one of this attempt."""
        return self._spec.lifecycle.save_seconds if self._measured is None else self._measured

    @property
    def is_saving(self) -> bool:
        """Whether a save is under way, or has ended and :meth:`finish` has not seen it."""
        return self._saving is not None

    @property
    def seconds_to_go(self) -> float:
        """What is left of the save under way, if there is one."""
        return 0.0 if self._saving is None else max(0.0, self.expected_seconds - self._saving.age)

    def restore(self) -> bool:
        """Load the newest checkpoint that verifies. False where nothing was ever committed.

        An attempt that is to pass over the newest takes one of an earlier step, if any verifies. With ``resume: never`` only this
        identity's own checkpoints count.

        Raises:
            NoCheckpointError: Every checkpoint is damaged, or there is none and ``resume`` is ``required``.
            DataError: It was trained on other data.
            LeaseLostError: A newer attempt began meanwhile.
        """
        self._reading.on_rank_0(self._become_writer)
        started = time.monotonic()
        record = self._latest_good()
        if record is None:
            if self._settings.resume != "never":
                damaged = self._reading.on_rank_0(lambda: [str(name) for name in self._store.quarantined()])
                refuse_to_start_over(self._settings.directory, self._settings.resume, damaged)
            return False
        start.refuse_other_data(record.step, record.metadata.get(_FINGERPRINT), self._fingerprint)
        self._learner.load(Restored(self._store, record, self._reading.on_rank_0))
        self.committed_step = self.begun_step = record.step
        self._link.committed(record.step, 0.0)
        if self._place.leads:
            self._log.info(
                "restored", step=record.step, samples=record.samples_consumed, path=self._store.location(record.name),
                from_world_size=record.world_size, seconds=round(time.monotonic() - started, 3),
            )
        return True

    def make_ready(self) -> None:
        """Find the memory for saves beside training, beside training, once the learner has all of its state: the first save
        would stand still for it.
        """
        settings = self._settings
        if self._saves_in_background and (settings.every_steps is not None or settings.every_seconds is not None):
            snapshots = self._learner.snapshots()

            def reserve() -> None:
                for snapshot in snapshots:
                    snapshot.reserve()

            self._reserving = _beside_training("host memory", reserve)

    @property
    def _saves_in_background(self) -> bool:
        return self._learner.saves_in_background and self._settings.save != "blocking"

    def begin(self) -> float:
        """Start to save, after the save before it is finished. Gives the seconds for which training stood still.

        Raises:
            StorageError: The volume refused, more often in a row than the run allows.
            LeaseLostError: A newer attempt writes to the lineage.
        """
        started = time.monotonic()
        self.finish()
        if self._saves_in_background:
            self._begin_beside_training()
        else:
            self._prepare(self._learner.snapshots).run()
            self.finish()
        return time.monotonic() - started

    def save(self) -> None:
        """Commit every finished step. On return that is done, and every rank knows it.

        Raises:
            StorageError: The volume refused. Nothing was committed then, and the last good checkpoint is untouched.
            LeaseLostError: A newer attempt writes to the lineage.
        """
        self.finish()
        if self._learner.position.step > (self.committed_step or 0):
            saving = self._prepare(self._learner.snapshots)
            saving.run()
            self._saving = None
            self._conclude(saving)

    def poll(self) -> None:
        """Take note of a save that has ended. Raises as :meth:`begin` does."""
        if self._saving is not None and self._saving.done:
            self.finish()

    def finish(self) -> None:
        """Wait for the save under way. On return this rank knows whether its checkpoint is committed. Raises as :meth:`begin`."""
        if self._saving is None:
            return
        saving, self._saving = self._saving, None
        try:
            self._conclude(saving)
        except StorageError as error:
            if self._failed_in_a_row > self._settings.failed_saves:
                raise
            if self._place.leads:
                row = {"in_a_row": self._failed_in_a_row, "allowed": self._settings.failed_saves}
                self._log.warning("checkpoint_failed", step=saving.position.step, reason=str(error), **row)

    def _conclude(self, saving: Saving) -> None:
        """Wait for the end of a save, and raise what it failed with. All ranks fail together, so all count alike."""
        try:
            seconds = saving.result()
        except Exception:
            self.failed_saves += 1
            self._failed_in_a_row += 1
            raise
        self._failed_in_a_row = 0
        self._measured = seconds
        self.committed_step = saving.position.step
        self._link.committed(saving.position.step, seconds)
        if self._place.leads:
            path = self._store.location(self._store.draft(saving.position.step, self.attempt).name)
            self._log.info("checkpoint_committed", step=saving.position.step, seconds=round(seconds, 3), path=path)
            warn_of_slow_save(seconds, self._spec.lifecycle.grace_seconds)

    def close(self) -> None:
        """Let the next attempt begin, after the last save."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        self._store.close()

    def _become_writer(self) -> None:
        grace_seconds = self._spec.lifecycle.grace_seconds
        self._lease = start.become_writer(self._store, self._spec.identity, self.attempt, grace_seconds)

    def _latest_good(self) -> CommitRecord | None:
        """Rank 0 proposes, the bytes are verified, rank 0 sets the damaged aside, until one is good."""
        proposed = self._reading.on_rank_0(self._candidates)
        for record in proposed:
            problems = self._problems(record)
            if not problems:
                if self._place.leads:
                    start.log_passed_over(proposed, record, self._resume_before)
                return record
            self._set_aside(record, problems)
        return None

    def _candidates(self) -> Sequence[CommitRecord]:
        found: Sequence[CommitRecord] = self._store.quarantine_unreadable(self._report_damage)
        if self._settings.resume == "never":  # of another identity, that is: an attempt goes on where the one before it ended
            found = [record for record in found if record.identity == self._spec.identity]
        return in_order(found, self._resume_before)

    def _problems(self, record: CommitRecord) -> list[Corruption]:
        """What all ranks together find wrong; the same on all of them."""
        rank, ranks = self._reading.share
        found = self._reading.on_each(lambda: self._store.verify(record, rank=rank, world_size=ranks))
        return self._reading.on_rank_0(lambda: found)

    def _set_aside(self, record: CommitRecord, problems: Sequence[Corruption]) -> None:
        # Several ranks may find the same file damaged; one sentence about it is enough, and its size says more than its chunks.
        told = sorted(problems, key=lambda problem: problem.kind != "digest")
        one_per_file = list({problem.file: problem for problem in told}.values())
        self._reading.on_rank_0(lambda: self._report_damage(self._store.quarantine(record, one_per_file)))

    def _report_damage(self, quarantined: Quarantined) -> None:
        self._log.warning("checkpoint_quarantined", reason=str(quarantined), path=str(quarantined.directory))

    def _begin_beside_training(self) -> None:
        if self._reserving is not None:
            self._reserving.join()
        snapshots = self._learner.snapshots()
        saving = self._prepare(lambda: snapshots)
        for snapshot in snapshots:
            snapshot.hold()
        saving.start()

    def _prepare(self, snapshots: Callable[[], Sequence[Snapshot]]) -> Saving:
        position, metadata = self._learner.position, self._learner.metadata()
        self.begun_step = position.step
        self._saving = Saving(position, lambda: self._write(position, metadata, snapshots()))
        return self._saving

    def _write(self, position: Position, metadata: Metadata, snapshots: Sequence[Snapshot]) -> None:
        """All ranks together; maybe in a thread."""
        self._writing.on_rank_0(lambda: self._begin_draft(position))  # the directory is there
        draft = self._store.draft(position.step, self.attempt)
        try:
            digests = self._writing.on_each(lambda: self._write_files(draft, snapshots))
        except StorageError:
            if self._place.leads:  # nobody writes any more: what is there only fills a volume that may be full
                with suppress(StorageError):
                    draft.discard()
            raise
        self._writing.on_rank_0(lambda: self._commit(position, metadata, digests))  # the commit is known to be good

    def _begin_draft(self, position: Position) -> None:
        with self._displacement_first():
            self._store.begin(position.step, self.attempt)

    def _write_files(self, draft: Draft, snapshots: Sequence[Snapshot]) -> list[FileDigest]:
        with self._displacement_first():
            return [digest for snapshot in snapshots for digest in snapshot.write(draft)]

    def _commit(self, position: Position, metadata: Metadata, digests: Sequence[FileDigest]) -> None:
        with self._displacement_first():
            self._store.commit(CommitRecord(
                identity=self._spec.identity,
                attempt=self.attempt,
                step=position.step,
                samples_consumed=position.samples,
                world_size=self._place.world_size,
                metadata={**metadata, _FINGERPRINT: self._fingerprint},
                files=tuple(digests),
            ))
            try:
                failures = self._store.retain(self._settings.keep, self.attempt, self._result_of_another()).failures
            except StorageError as error:  # it is committed all the same
                failures = (error,)
            for failure in failures:
                self._log.warning("checkpoint_not_removed", step=position.step, reason=str(failure))

    def _result_of_another(self) -> list[CheckpointName]:
        """The last step of the run that finished here before this one, and is no step on this one's way."""
        if self._settings.resume != "never":
            return []
        complete = read_complete(self._settings.directory)
        if complete is None or complete.identity == self._spec.identity:
            return []
        of_it = [record.name for record in self._store.records() if record.identity == complete.identity]
        return [name for name in of_it if name.step == complete.step][:1]

    @contextmanager
    def _displacement_first(self) -> Iterator[None]:
        """The attempt that took over may have removed what this one was writing: that is the reason then, and not the volume."""
        try:
            yield
        except StorageError:
            if self._lease is not None:
                self._lease.check()
            raise


class Saving:
    """One save under way, in a thread or not: a function that is called once, and whose failure waits for somebody who asks."""

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
        self._thread = _beside_training("checkpoint", self.run)

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


def _beside_training(name: str, act: Callable[[], object]) -> threading.Thread:
    """Act in a thread that yields to training, and does not keep a process that ends."""
    thread = threading.Thread(target=_nicely, args=(act,), name=name, daemon=True)
    thread.start()
    return thread


def _nicely(act: Callable[[], object]) -> None:
    if sys.platform == "linux":  # where a thread has a priority of its own, setpriority(2)
        own = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) + _NICER)
    act()
