"""Checkpoint store: drafts, commits, verifies, falls back and cleans up in one lineage's directory, on whichever volume it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from trainwright_trainer.checkpoint.data_file import CHUNK_BYTES, ChunkedHash, FileDigest, checked_file_name
from trainwright_trainer.checkpoint.lease import Lease, LeaseLostError, LeaseTiming, OnWait, acquire, fence_drafts, release_for
from trainwright_trainer.checkpoint.posix_volume import PosixVolume
from trainwright_trainer.checkpoint.record import (
    CommitRecord,
    FencedError,
    RecordError,
    UnknownSchemaError,
    decode_record,
    encode_record,
)
from trainwright_trainer.checkpoint.retention import (
    Corruption,
    Fence,
    OnQuarantine,
    Quarantined,
    Retention,
    quarantine,
    retain,
    sizes_differ,
    verify_data,
)
from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.checkpoint.volume import CheckpointName, Listing, Volume, committed, data_key, open_volume, record_key


@dataclass(frozen=True, slots=True)
class Scan:
    """The commits of a lineage as one rank saw them; only that rank chooses, the others are told."""

    records: tuple[CommitRecord, ...]
    """Newest first: by step, then by time of commit."""
    unreadable: tuple[tuple[CheckpointName, Corruption], ...]
    """Commits whose record cannot be trusted."""
    fences: tuple[Fence, ...]
    """Drafts that can never be committed."""


class CheckpointStore:
    """Verified checkpoints under ``directory``. Rank 0 begins, commits, chooses and cleans up; every rank writes and verifies.

    Args:
        directory: The lineage's own: an absolute path, or an address such as ``s3://bucket/run/lineage``.
        chunk_bytes: Bytes under one digest.

    Rank 0 takes the lease before it looks for anything (:meth:`acquire_lease`). Without a lease nothing keeps a second writer
    away, and drafts of other attempts stay.
    """

    def __init__(self, directory: Path | str, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._volume = open_volume(directory)
        self._chunk_bytes = chunk_bytes
        self._lease: Lease | None = None
        self._inherited: frozenset[CheckpointName] | None = None

    @property
    def is_file_system(self) -> bool:
        """Whether data is read and written in its place, and not in a copy on each machine."""
        return isinstance(self._volume, PosixVolume)

    @property
    def directory(self) -> Path:
        """The path of a lineage on a file system. Raises ``ValueError`` on an object store; see :meth:`location`."""
        if not isinstance(self._volume, PosixVolume):
            raise ValueError(f"{self.location()} is no path")
        return self._volume.directory

    def location(self, name: CheckpointName | None = None) -> str:
        """Path or address of a checkpoint's data, or of the lineage, for a person."""
        return self._volume.location("" if name is None else data_key(name))

    def acquire_lease(
        self, identity: str, attempt: str, timing: LeaseTiming | None = None, on_wait: OnWait | None = None
    ) -> Lease:
        """Become the lineage's one writer (rank 0): wait for the writer before, then make sure that it commits nothing more.

        From then on :meth:`begin`, :meth:`commit` and :meth:`retain` raise :class:`LeaseLostError` once a newer attempt took
        over.

        Args:
            identity: Name of the run's objects.
            attempt: Nonce of this attempt.
            timing: How long to wait for what.
            on_wait: Hears who is waited for.

        Raises :class:`StorageError`, and :class:`LeaseLostError` where a newer attempt took over at once.
        """
        lease = acquire(self._volume, identity, attempt, timing or LeaseTiming(), on_wait)
        try:
            self._inherited = fence_drafts(self._volume, lease)
        except BaseException:
            lease.release()
            raise
        self._lease = lease
        return lease

    def release_lease_of(self, attempt: str) -> None:
        """Let the next attempt begin at once, after the rank that held the lease is known to be dead (its supervisor).

        Raises :class:`StorageError`.
        """
        release_for(self._volume, attempt)

    def begin(self, step: int, attempt: str) -> Draft:
        """Make the data directory of a new checkpoint (rank 0), or start over in one of this attempt that was not committed.

        Raises ``ValueError`` where this attempt committed the step already, :class:`LeaseLostError` and :class:`StorageError`.
        """
        self._check_lease()
        draft = self.draft(step, attempt)
        self._refuse_committed(draft.name)
        draft.discard()
        self._volume.make_tree(data_key(draft.name))
        return draft

    def draft(self, step: int, attempt: str) -> Draft:
        """The draft that rank 0 began, for any rank in any process."""
        return Draft(self._volume, CheckpointName(step, attempt), self._chunk_bytes)

    def commit(self, record: CommitRecord) -> str:
        """Make a checkpoint exist, after every rank's writes returned. Gives the record's path or address.

        Raises:
            StorageError: The checkpoint is then either not committed or whole.
            LeaseLostError: A newer attempt took over; nothing was committed.
            ValueError: This attempt committed the step already, or the metadata is not JSON.
        """
        data = encode_record(record)
        self._refuse_committed(record.name)
        if changed := sizes_differ(self._volume, record):
            self._check_lease()
            remedy = "another attempt may have removed it: a lineage has one writer"
            raise StorageError("commit", self.location(record.name), changed[0].message, remedy)
        self._check_lease()  # after the last byte of data, before the record: see lease.py
        key = record_key(record.name)
        try:
            created = self._volume.create(key, data)
        except StorageError:  # it may be there, and only the answer or the last sync have failed: to create it again tells
            created = self._volume.create(key, data)
        if not created:
            self._refuse_committed(record.name)
            raise StorageError("commit", self._volume.location(key), "it came and went", "see who else writes there")
        return self._volume.location(key)

    def path(self, record: CommitRecord, name: str) -> Path:
        """Where a committed file can be read on this machine. On an object store it is copied here first, and checked.

        Raises ``KeyError`` if the record does not list it, and :class:`StorageError`.
        """
        for digest in record.files:
            if digest.name == name:
                return self._volume.fetch(data_key(record.name), digest)
        raise KeyError(f"{name} is not in the commit record of {record.name}")

    def scan(self) -> Scan:
        """Read every commit record.

        Raises :class:`UnknownSchemaError` if a newer trainer wrote one: going on from an older commit would undo its work.
        """
        records: list[CommitRecord] = []
        unreadable: list[tuple[CheckpointName, Corruption]] = []
        fences: list[Fence] = []
        for name in committed(self._volume):
            data = self._volume.read(record_key(name))
            if data is None:
                continue  # set aside or removed since it was listed
            try:
                records.append(decode_record(data, name))
            except FencedError as fenced:
                fences.append(Fence(name, fenced.term))
            except RecordError as error:
                message = f"{self._volume.location(record_key(name))}: {error}"
                unreadable.append((name, Corruption(file=None, kind="record", message=message)))
        records.sort(key=lambda record: (record.step, record.committed_at, record.attempt), reverse=True)
        return Scan(tuple(records), tuple(unreadable), tuple(fences))

    def records(self) -> tuple[CommitRecord, ...]:
        """Commits with a sound record, newest first; their data is not verified. :meth:`scan` reports the others too."""
        return self.scan().records

    def verify(
        self, record: CommitRecord, files: Collection[str] | None = None, *, rank: int = 0, world_size: int = 1
    ) -> list[Corruption]:
        """What is wrong with a checkpoint's data; nothing means that every byte read is the byte written.

        With ``world_size`` ranks each reads its share of the chunks, so their problems together are the answer.
        Raises :class:`StorageError` where the volume cannot be read.
        """
        return verify_data(self._volume, record, files, rank, world_size)

    def quarantine(self, record: CommitRecord, problems: Sequence[Corruption]) -> Quarantined:
        """Set a damaged checkpoint aside: its record, and on a file system its data, get names that end in ``.bad``."""
        return quarantine(self._volume, record.name, tuple(problems))

    def quarantine_unreadable(self, on_quarantine: OnQuarantine | None = None) -> tuple[CommitRecord, ...]:
        """Set aside the commits whose record cannot be trusted. Gives the others, newest first: the candidates for a resume."""
        found = self.scan()
        for name, problem in found.unreadable:
            _tell(on_quarantine, quarantine(self._volume, name, (problem,)))
        return found.records

    def quarantined(self) -> tuple[CheckpointName, ...]:
        """Commits that were set aside and are still there, newest first."""
        return tuple(sorted(Listing.of(self._volume).bad_records, reverse=True))

    def latest_good(self, on_quarantine: OnQuarantine | None = None) -> CommitRecord | None:
        """The newest checkpoint that verifies, read by this process alone; damaged ones on the way are set aside.

        None means that nothing was ever committed, or that ``on_quarantine`` heard of everything that was.
        """
        for record in self.quarantine_unreadable(on_quarantine):
            problems = self.verify(record)
            if not problems:
                return record
            _tell(on_quarantine, self.quarantine(record, problems))
        return None

    def retain(self, keep: int, attempt: str, spared: Collection[CheckpointName] = ()) -> Retention:
        """Clean up after a commit of ``attempt``, the attempt that runs now; see :func:`retention.retain`.

        What is ``spared`` stays.

        Nothing is removed unless the newest commit reads back and its files are there in full size.
        """
        self._check_lease()
        found = self.scan()
        return retain(self._volume, found.records, found.fences, keep, attempt, self._inherited, spared)

    def close(self) -> None:
        """Remove what was copied to this machine. Does not release the lease."""
        self._volume.close()

    def _check_lease(self) -> None:
        if self._lease:
            self._lease.check()

    def _refuse_committed(self, name: CheckpointName) -> None:
        data = self._volume.read(record_key(name))
        if data is None:
            return
        try:
            decode_record(data, name)
        except FencedError:
            self._check_lease()
            raise LeaseLostError(
                f"{name} in {self.location()} was fenced by a newer attempt, so this one must not commit it: it lost its lease"
            ) from None
        except (RecordError, UnknownSchemaError):
            pass  # in the way all the same
        raise ValueError(f"{name} is committed already in {self.location()}")


def _tell(listener: OnQuarantine | None, quarantined: Quarantined) -> None:
    if listener:
        listener(quarantined)


Piece: TypeAlias = "bytes | bytearray | memoryview[Any]"


class Draft:
    """The data of one step and attempt. Any rank may write to it, each rank its own files.

    Safe from any thread, and from several at once for different files: a draft keeps no state. A call blocks its own thread
    alone; hashing and writing let other threads run (xxhash and file objects release the interpreter lock). The memory behind
    ``chunks`` must not change until :meth:`write` took it, so a save beside training copies its tensors first.
    """

    def __init__(self, volume: Volume, name: CheckpointName, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.name = name
        self._volume = volume
        self._tree = data_key(name)
        self._chunk_bytes = chunk_bytes

    def path(self, name: str) -> Path:
        """Where a library shall write the file ``name``; hand it to :meth:`digest_existing` afterwards.

        On an object store this is a scratch file on this machine, of the same relative place.
        """
        return self._volume.local(self._tree, checked_file_name(name))

    def write(self, name: str, chunks: Iterable[Piece]) -> FileDigest:
        """Write a new file from pieces of any size, hashing them on the way, and make it durable.

        The digest is of the bytes in memory, so damage on the way to the volume is found by a later verify. A view may have
        any shape and item type but must be C-contiguous.

        Raises:
            StorageError: the volume refused; the partial file is removed.
            ValueError: a bad name, or a view that is not contiguous.
        """
        hashed = ChunkedHash(self._chunk_bytes)
        self._volume.write(self._tree, checked_file_name(name), _hashed(chunks, hashed))
        return hashed.digest(name)

    def digest_existing(self, name: str) -> FileDigest:
        """Make durable and digest a file that a library wrote at :meth:`path`; on an object store it is uploaded now.

        Raises :class:`StorageError` where the file is missing, is no regular file or cannot be read.
        """
        hashed = ChunkedHash(self._chunk_bytes)
        self._volume.adopt(self._tree, checked_file_name(name), hashed.update)
        return hashed.digest(name)

    def discard(self) -> None:
        """Remove what was written, after a save that failed. The caller sees to it that no rank still writes."""
        self._volume.remove_tree(self._tree)


def _hashed(chunks: Iterable[Piece], hashed: ChunkedHash) -> Iterator[memoryview]:
    for chunk in chunks:
        view = _flat(chunk)
        hashed.update(view)
        yield view


def _flat(chunk: Piece) -> memoryview:
    view = memoryview(chunk)
    if not view.c_contiguous:
        raise ValueError("a piece of checkpoint data is not contiguous: copy it first")
    return view.cast("B") if view.nbytes else memoryview(b"")  # cast refuses a zero in the shape


class Snapshot(Protocol):
    """A rank's part of the state of training, on its way into a checkpoint."""

    def reserve(self) -> None:
        """Find the memory that :meth:`hold` of this snapshot and of later ones fills. Training may go on meanwhile."""

    def hold(self) -> None:
        """Keep it as it is now: from here on training may go on. Only what is saved in the background is asked."""

    def write(self, draft: Draft) -> list[FileDigest]:
        """Write this rank's files, if it has any. Raises :class:`StorageError`."""


class CommittedFiles:
    """The files of one commit record, after all of them were verified."""

    def __init__(self, store: CheckpointStore, record: CommitRecord) -> None:
        self._store, self._record = store, record

    @property
    def world_size(self) -> int:
        return self._record.world_size

    @property
    def are_shared(self) -> bool:
        """Whether all ranks find them at the same paths. Of an object store each process has copies of its own."""
        return self._store.is_file_system

    def names(self) -> tuple[str, ...]:
        return tuple(file.name for file in self._record.files)

    def path(self, name: str) -> Path:
        return self._store.path(self._record, name)
