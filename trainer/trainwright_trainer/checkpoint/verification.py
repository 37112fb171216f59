"""Verification: does the data on the volume still match its commit record?

What is gone, cut or changed is a :class:`Problem` of that checkpoint. A volume that cannot be read at all (EIO, EACCES, ESTALE)
is a ``StorageError`` instead: quarantining every checkpoint because a mount hiccups would throw a run back to its start.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from trainwright_trainer.checkpoint.data_file import open_data_file
from trainwright_trainer.checkpoint.digest import FileDigest, chunk_matches
from trainwright_trainer.checkpoint.record import CommitRecord
from trainwright_trainer.checkpoint.storage import storage_errors
from trainwright_trainer.contract.base import Contract

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)


class Problem(Contract):
    """What is wrong with one file of a checkpoint, or with its record (``file`` is None)."""

    file: str | None
    kind: Literal["missing", "size", "digest", "record"]
    message: str


def verify_data(
    directory: Path, record: CommitRecord, files: Collection[str] | None, rank: int, world_size: int
) -> list[Problem]:
    """Problems of the named files, at most one a file, in the record's order.

    Chunks are numbered through all these files; this rank reads the chunks ``k`` with ``k % world_size == rank``, and the
    presence and size of every file. Raises ``ValueError`` for a file that is not in the record.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not one of {world_size}")
    if unknown := sorted(set(files or ()) - {file.name for file in record.files}):
        raise ValueError(f"not in the commit record of {record.name}: {', '.join(unknown)}")
    problems: list[Problem] = []
    first = 0
    for digest in record.files:
        if files is None or digest.name in files:
            mine = range((rank - first) % world_size, len(digest.chunks), world_size)
            problems.extend(_problems(directory / digest.name, digest, mine))
            first += len(digest.chunks)
    return problems


def sizes_differ(directory: Path, record: CommitRecord) -> list[Problem]:
    """The cheap half of :func:`verify_data`: presence and size, no content."""
    return [problem for digest in record.files for problem in _problems(directory / digest.name, digest, range(0))]


def _problems(path: Path, digest: FileDigest, chunks: range) -> list[Problem]:
    with storage_errors("read", path):
        try:
            file = open_data_file(path)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return [Problem(file=digest.name, kind="missing", message=f"{path}: {error.strerror}")]
        with file:
            size = os.fstat(file.fileno()).st_size
            if size != digest.size:
                return [Problem(file=digest.name, kind="size", message=f"{path}: {size} bytes instead of {digest.size}")]
            bad = [index for index in chunks if not chunk_matches(file, digest, index)]
    if not bad:
        return []
    where = f"{len(bad)} of {len(chunks)} chunks, the first at byte {bad[0] * digest.chunk_bytes}"
    return [Problem(file=digest.name, kind="digest", message=f"{path}: content changed in {where}")]
