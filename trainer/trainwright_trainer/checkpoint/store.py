"""Checkpoint store: commits, verifies, falls back and cleans up in one lineage's directory on a POSIX file system."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainwright_trainer.checkpoint.digest import CHUNK_BYTES
from trainwright_trainer.checkpoint.draft import Draft
from trainwright_trainer.checkpoint.durable import make_directory, replace_file
from trainwright_trainer.checkpoint.layout import CheckpointName, Layout, checked_file_name
from trainwright_trainer.checkpoint.quarantine import OnQuarantine, Quarantined, quarantine
from trainwright_trainer.checkpoint.record import CommitRecord, RecordError, decode_record, encode_record
from trainwright_trainer.checkpoint.retention import Retention, retain
from trainwright_trainer.checkpoint.storage import StorageError, storage_errors
from trainwright_trainer.checkpoint.verification import Problem, sizes_differ, verify_data


@dataclass(frozen=True, slots=True)
class Scan:
    """The commits of a lineage as one rank saw them; only that rank chooses, the others are told."""

    records: tuple[CommitRecord, ...]
    """Newest first: by step, then by time of commit."""
    unreadable: tuple[tuple[CheckpointName, Problem], ...]
    """Commits whose record cannot be trusted."""


class CheckpointStore:
    """Verified checkpoints under ``directory``. Rank 0 begins, commits, chooses and cleans up; every rank writes and verifies."""

    def __init__(self, directory: Path | str, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._layout = Layout(Path(directory))
        self._chunk_bytes = chunk_bytes

    @property
    def directory(self) -> Path:
        return self._layout.directory

    def begin(self, step: int, attempt: str) -> Draft:
        """Make the data directory of a new checkpoint (rank 0), or start over in one of this attempt that was not committed.

        Raises ``ValueError`` where this attempt committed the step already, and :class:`StorageError`.
        """
        draft = self.draft(step, attempt)
        self._refuse_committed(draft.name)
        make_directory(self._layout.commits)
        draft.discard()
        make_directory(draft.directory)
        return draft

    def draft(self, step: int, attempt: str) -> Draft:
        """The draft that rank 0 began, for any rank in any process."""
        name = CheckpointName(step, attempt)
        return Draft(self._layout.data(name), name, self._chunk_bytes)

    def commit(self, record: CommitRecord) -> Path:
        """Make a checkpoint exist, after every rank's writes returned. Gives the record's path.

        Raises :class:`StorageError`; the checkpoint is then either not committed or whole. Raises ``ValueError`` where this
        attempt committed the step already, or the metadata is not JSON.
        """
        data = encode_record(record)
        self._refuse_committed(record.name)
        directory = self._layout.data(record.name)
        if changed := sizes_differ(directory, record):
            remedy = "another attempt may have removed it: a lineage has one writer"
            raise StorageError("commit", directory, changed[0].message, remedy)
        path = self._layout.record(record.name)
        replace_file(path, data)
        return path

    def path(self, record: CommitRecord, name: str) -> Path:
        """Where a committed file is. Raises ``KeyError`` if the record does not list it."""
        if all(file.name != name for file in record.files):
            raise KeyError(f"{name} is not in the commit record of {record.name}")
        return self._layout.data(record.name) / checked_file_name(name)

    def scan(self) -> Scan:
        """Read every commit record.

        Raises :class:`UnknownSchemaError` if a newer trainer wrote one: going on from an older commit would undo its work.
        """
        records, unreadable = [], []
        for name in self._layout.committed():
            path = self._layout.record(name)
            with storage_errors("read", path):
                try:
                    records.append(decode_record(path.read_bytes(), name))
                except FileNotFoundError:
                    continue  # set aside or removed since it was listed
                except RecordError as error:
                    unreadable.append((name, Problem(file=None, kind="record", message=f"{path}: {error}")))
        records.sort(key=lambda record: (record.step, record.committed_at, record.attempt), reverse=True)
        return Scan(tuple(records), tuple(unreadable))

    def records(self) -> tuple[CommitRecord, ...]:
        """Commits with a sound record, newest first; their data is not verified. :meth:`scan` reports the others too."""
        return self.scan().records

    def verify(
        self, record: CommitRecord, files: Collection[str] | None = None, *, rank: int = 0, world_size: int = 1
    ) -> list[Problem]:
        """What is wrong with a checkpoint's data; nothing means that every byte read is the byte written.

        With ``world_size`` ranks each reads its share of the chunks, so their problems together are the answer.
        Raises :class:`StorageError` where the volume cannot be read.
        """
        return verify_data(self._layout.data(record.name), record, files, rank, world_size)

    def quarantine(self, record: CommitRecord, problems: Sequence[Problem]) -> Quarantined:
        """Set a damaged checkpoint aside, record and data, under names that end in ``.bad``."""
        return quarantine(self._layout, record.name, tuple(problems))

    def quarantine_unreadable(self, on_quarantine: OnQuarantine | None = None) -> tuple[CommitRecord, ...]:
        """Set aside the commits whose record cannot be trusted. Gives the others, newest first: the candidates for a resume."""
        found = self.scan()
        for name, problem in found.unreadable:
            _tell(on_quarantine, quarantine(self._layout, name, (problem,)))
        return found.records

    def quarantined(self) -> tuple[CheckpointName, ...]:
        """Commits that were set aside and are still there, newest first."""
        return tuple(sorted(self._layout.bad_records(), reverse=True))

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

    def retain(self, keep: int, attempt: str) -> Retention:
        """Clean up after a commit of ``attempt``, the attempt that runs now; see :func:`retention.retain`.

        Nothing is removed unless the newest commit reads back and its files are there in full size.
        """
        return retain(self._layout, self.records(), keep, attempt)

    def _refuse_committed(self, name: CheckpointName) -> None:
        with storage_errors("read", self._layout.record(name)), suppress(FileNotFoundError):
            self._layout.record(name).lstat()
            raise ValueError(f"{name} is committed already in {self.directory}")


def _tell(listener: OnQuarantine | None, quarantined: Quarantined) -> None:
    if listener:
        listener(quarantined)
