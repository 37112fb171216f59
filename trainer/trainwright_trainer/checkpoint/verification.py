"""Verification: does the data on the volume still match its commit record? And quarantine, for a checkpoint that does not.

What is gone, cut or changed is a :class:`Problem` of that checkpoint. A volume that cannot be read at all (EIO, EACCES, ESTALE)
is a ``StorageError`` instead: quarantining every checkpoint because a mount hiccups would throw a run back to its start.
A checkpoint in quarantine is renamed, kept for inspection, and never loaded again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from trainwright_trainer.checkpoint.data_file import FileDigest, chunk_matches, chunk_span
from trainwright_trainer.checkpoint.layout import CheckpointName, Listing, bad_data_key, bad_record_key, data_key, record_key
from trainwright_trainer.checkpoint.record import CommitRecord
from trainwright_trainer.checkpoint.storage import DataGoneError
from trainwright_trainer.checkpoint.volume import Volume
from trainwright_trainer.contract.base import Contract


class Problem(Contract):
    """What is wrong with one file of a checkpoint, or with its record (``file`` is None)."""

    file: str | None
    kind: Literal["missing", "size", "digest", "record"]
    message: str


def verify_data(
    volume: Volume, record: CommitRecord, files: Collection[str] | None, rank: int, world_size: int
) -> list[Problem]:
    """Problems of the named files, at most one a file, in the record's order.

    Chunks are numbered through all these files; this rank reads the chunks ``k`` with ``k % world_size == rank``, and the
    presence and size of every file. Raises ``ValueError`` for a file that is not in the record.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not one of {world_size}")
    if unknown := sorted(set(files or ()) - {file.name for file in record.files}):
        raise ValueError(f"not in the commit record of {record.name}: {', '.join(unknown)}")
    chosen = [digest for digest in record.files if files is None or digest.name in files]
    wrong = {problem.file: problem for problem in _wrong_sizes(volume, record, chosen)}
    problems: list[Problem] = []
    first = 0
    for digest in chosen:
        mine = range((rank - first) % world_size, len(digest.chunks), world_size)
        problem = wrong.get(digest.name) or _wrong_content(volume, data_key(record.name), digest, mine)
        if problem:
            problems.append(problem)
        first += len(digest.chunks)
    return problems


def sizes_differ(volume: Volume, record: CommitRecord) -> list[Problem]:
    """The cheap half of :func:`verify_data`: presence and size, no content."""
    return _wrong_sizes(volume, record, record.files)


def _wrong_sizes(volume: Volume, record: CommitRecord, digests: Collection[FileDigest]) -> list[Problem]:
    tree = data_key(record.name)
    sizes = volume.sizes(tree, [digest.name for digest in digests])
    problems: list[Problem] = []
    for digest in digests:
        size = sizes[digest.name]
        if isinstance(size, DataGoneError):
            problems.append(_missing(digest, size))
        elif size != digest.size:
            message = f"{volume.location(f'{tree}/{digest.name}')}: {size} bytes instead of {digest.size}"
            problems.append(Problem(file=digest.name, kind="size", message=message))
    return problems


def _wrong_content(volume: Volume, tree: str, digest: FileDigest, chunks: range) -> Problem | None:
    try:
        bad = [at for at in chunks if not chunk_matches(volume.pieces(tree, digest.name, *chunk_span(digest, at)), digest, at)]
    except DataGoneError as gone:  # since its size was asked for
        return _missing(digest, gone)
    if not bad:
        return None
    where = f"{len(bad)} of {len(chunks)} chunks, the first at byte {bad[0] * digest.chunk_bytes}"
    message = f"{volume.location(f'{tree}/{digest.name}')}: content changed in {where}"
    return Problem(file=digest.name, kind="digest", message=message)


def _missing(digest: FileDigest, gone: DataGoneError) -> Problem:
    return Problem(file=digest.name, kind="missing", message=str(gone))


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A checkpoint that was set aside, and why."""

    name: CheckpointName
    problems: tuple[Problem, ...]
    directory: str
    """Where its data is now, if it had any: a path, or an address on an object store."""

    def __str__(self) -> str:
        return f"checkpoint {self.name} is damaged and was set aside: {'; '.join(p.message for p in self.problems)}"


OnQuarantine = Callable[[Quarantined], None]


def quarantine(volume: Volume, name: CheckpointName, problems: tuple[Problem, ...]) -> Quarantined:
    """Rename record and data to ``.bad``, the record first: from then on nobody chooses it. Safe to repeat after a crash."""
    volume.move(record_key(name), bad_record_key(name))
    tree = volume.set_aside(data_key(name), bad_data_key(name))
    return Quarantined(name, problems, volume.location(tree))


def finish_quarantines(volume: Volume) -> None:
    """Rename the data of checkpoints whose quarantine was cut off between record and data."""
    seen = Listing.of(volume)
    for name in set(seen.bad_records) & set(seen.data) - set(seen.records):
        volume.set_aside(data_key(name), bad_data_key(name))
