"""Verification: does the data on the volume still match its commit record?

What is gone, cut or changed is a :class:`Problem` of that checkpoint. A volume that cannot be read at all (EIO, EACCES, ESTALE)
is a ``StorageError`` instead: quarantining every checkpoint because a mount hiccups would throw a run back to its start.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from trainwright_trainer.checkpoint.data_file import FileDigest, chunk_matches, chunk_span
from trainwright_trainer.checkpoint.layout import data_key
from trainwright_trainer.checkpoint.record import CommitRecord
from trainwright_trainer.checkpoint.volume import DataGoneError, Volume
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
