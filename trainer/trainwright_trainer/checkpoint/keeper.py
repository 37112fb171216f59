"""Checkpoints of a program that writes its files by itself: this keeps them as our trainer's are kept.

One process keeps for all ranks: node 0's supervisor, or the program itself where it is alone. It makes the directory that all
ranks write to, and when they have, it hashes what is there, commits it and cleans up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainwright_trainer.checkpoint.data_file import FileDigest
from trainwright_trainer.checkpoint.lease import Holder, Lease, LeaseLostError, LeaseTiming, OnWait
from trainwright_trainer.checkpoint.record import CommitRecord
from trainwright_trainer.checkpoint.retention import OnQuarantine
from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.checkpoint.store import CheckpointStore
from trainwright_trainer.contract.failures import NoCheckpointError

_HASHING_THREADS = 4


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint, or the draft of one."""

    step: int
    path: str


def in_order(records: Sequence[CommitRecord], before: int | None) -> list[CommitRecord]:
    """The commits, given newest first: those of steps below ``before``, then the others."""
    return sorted(records, key=lambda record: before is not None and record.step >= before)


def refuse_to_start_over(directory: str, resume: str, damaged: Sequence[str]) -> None:
    """What was trained and cannot be read is for a person to give up, in this attempt and in every later one.

    Raises :class:`NoCheckpointError` where checkpoints are damaged, or one is required.
    """
    if damaged:
        raise NoCheckpointError(
            f"{directory} holds no checkpoint that verifies: {', '.join(damaged)} damaged and set aside; restore one, "
            "or move the directory away to start at step 0"
        )
    if resume == "required":
        raise NoCheckpointError(
            f"resume is required and {directory} holds no checkpoint that verifies; restore one, or set resume to auto "
            "to start at step 0"
        )


class Keeper:
    """Of one attempt. Each call may take as long as the volume does; one at a time.

    Args:
        directory: The lineage's own, on a file system.
        identity: Name of the run's objects.
        attempt: Its nonce.
        world_size: Ranks that write.
        keep: Commits that stay.
        resume: As the run states it.
        patience_seconds: For an attempt before this one, which may still be saving.
        resume_before: Step whose commits are the last to be tried.
        on_quarantine: Hears of checkpoints that were set aside.
        on_wait: Hears whom the lease is waited for.

    All calls raise :class:`StorageError`, and :class:`LeaseLostError` once a newer attempt took over.
    """

    def __init__(
        self, directory: str, identity: str, attempt: str, world_size: int, *, keep: int = 3,
        resume: Literal["auto", "required", "never"] = "auto", patience_seconds: float = 120.0, resume_before: int | None = None,
        on_quarantine: OnQuarantine | None = None, on_wait: OnWait | None = None,
    ) -> None:
        self._store = CheckpointStore(directory)
        self._directory, self._identity, self._attempt, self._world_size = directory, identity, attempt, world_size
        self._keep, self._resume, self._resume_before = keep, resume, resume_before
        self._on_quarantine, self._on_wait = on_quarantine, on_wait
        self._timing = LeaseTiming(patience_seconds=max(patience_seconds, LeaseTiming().expiry_seconds))
        self._lease: Lease | None = None
        self._closed, self._lock = False, threading.Lock()

    def newest(self) -> Kept | None:
        """The newest commit that verifies; damaged ones are set aside. Raises :class:`NoCheckpointError` as it is said there."""
        self._become_writer()
        found: Sequence[CommitRecord] = self._store.quarantine_unreadable(self._on_quarantine)
        if self._resume == "never":
            found = [record for record in found if record.identity == self._identity]
        for record in in_order(found, self._resume_before):
            problems = self._store.verify(record)
            if not problems:
                return Kept(record.step, self._store.location(record.name))
            quarantined = self._store.quarantine(record, problems)
            if self._on_quarantine is not None:
                self._on_quarantine(quarantined)
        if self._resume != "never":
            refuse_to_start_over(self._directory, self._resume, [str(name) for name in self._store.quarantined()])
        return None

    def draft(self, step: int) -> Kept:
        """An empty directory for the files of this step. Raises ``ValueError`` where this attempt committed the step already."""
        self._become_writer()
        return Kept(step, self._store.location(self._store.begin(step, self._attempt).name))

    def commit(self, step: int) -> Kept:
        """Commit what is in the draft. Raises ``ValueError`` where it is empty, or a file's name is none for a checkpoint."""
        self._become_writer()
        draft = self._store.draft(step, self._attempt)
        root = Path(self._store.location(draft.name))
        names = sorted(str(Path(folder, name).relative_to(root)) for folder, _, files in os.walk(root) for name in files)
        if not names:
            raise ValueError(f"nothing was written to {root}: each rank writes its files there, and then all commit")
        digest: Callable[[str], FileDigest] = draft.digest_existing
        with ThreadPoolExecutor(_HASHING_THREADS) as pool:  # xxhash and reading let other threads run
            digests = tuple(pool.map(digest, names))
        self._store.commit(CommitRecord(
            identity=self._identity, attempt=self._attempt, step=step, samples_consumed=0, world_size=self._world_size,
            files=digests,
        ))
        with suppress(StorageError):  # it is committed all the same, and the next one cleans up
            self._store.retain(self._keep, self._attempt)
        return Kept(step, str(root))

    def close(self) -> None:
        """Let the next attempt begin at once. A call that still waits for the lease raises :class:`LeaseLostError`, and has none:
        where the process goes on, nobody else would give it up.
        """
        with self._lock:
            self._closed = True
            lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def _become_writer(self) -> None:
        if self._lease is not None:
            return
        self._check_open()
        lease = self._store.acquire_lease(self._identity, self._attempt, self._timing, self._waits)
        with self._lock:
            if not self._closed:
                self._lease = lease
        if self._closed:
            lease.release()
            self._check_open()

    def _waits(self, holder: Holder, seconds: float) -> None:
        self._check_open()
        if self._on_wait is not None:
            self._on_wait(holder, seconds)

    def _check_open(self) -> None:
        if self._closed:
            raise LeaseLostError(f"attempt {self._attempt} of {self._identity} has ended, and saves no more")
