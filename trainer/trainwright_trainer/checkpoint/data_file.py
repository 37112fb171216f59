"""A data file of a checkpoint: its name, its digest, and how it is opened.

The digest is xxh3-128 of every chunk. Chunks let several ranks verify one large file, and name the place of a damage. xxh3 finds
accidents at memory speed; it is no defence against somebody who may write to the volume.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from typing import Annotated, Self

import xxhash
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from trainwright_trainer.contract.base import Contract, Count, Index

CHUNK_BYTES = 64 * 2**20
READ_BYTES = 2**20
"""Of one read from a POSIX file."""

_PART = re.compile(r"[A-Za-z0-9._\-]{1,255}")
MAX_FILE_NAME = 1024


def checked_file_name(name: str) -> str:
    """A data file's path inside its checkpoint: relative, ``/`` between plain parts. Raises ``ValueError`` for any other."""
    parts = name.split("/")
    if len(name) > MAX_FILE_NAME or any(not _PART.fullmatch(part) or part in (".", "..") for part in parts):
        raise ValueError(
            f"{name!r} is not a checkpoint file name: use letters, digits, '.', '_' and '-', '/' between directories, and no '..'"
        )
    return name


FileName = Annotated[str, AfterValidator(checked_file_name)]
Xxh3 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class FileDigest(Contract):
    """A data file as it was written: name inside the checkpoint, size in bytes, xxh3-128 (hex) of each chunk in order."""

    name: FileName
    size: Index
    chunk_bytes: Annotated[Count, Field(le=2**40)] = CHUNK_BYTES
    """Size of every chunk but the last, which is shorter or as long. An empty file has no chunk."""
    chunks: tuple[Xxh3, ...]

    @model_validator(mode="after")
    def _chunks_cover_the_file(self) -> Self:
        needed = -(-self.size // self.chunk_bytes)
        if len(self.chunks) != needed:
            raise ValueError(f"{self.name} has {len(self.chunks)} chunk digests; {self.size} bytes need {needed}")
        return self


class ChunkedHash:
    """Hashes bytes as they come, however they are cut, into one digest per chunk."""

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._digests: list[str] = []
        self._open = xxhash.xxh3_128()
        self._filled = 0
        self._size = 0

    def update(self, data: memoryview) -> None:
        """Take more bytes; ``data`` is a flat view of bytes."""
        self._size += len(data)
        while len(data):
            taken = data[: self._chunk_bytes - self._filled]
            self._open.update(taken)
            self._filled += len(taken)
            data = data[len(taken) :]
            if self._filled == self._chunk_bytes:
                self._close()

    def digest(self, name: str) -> FileDigest:
        """The digest of all bytes so far, as the file ``name``."""
        chunks = [*self._digests, self._open.hexdigest()] if self._filled else self._digests
        return FileDigest(name=name, size=self._size, chunk_bytes=self._chunk_bytes, chunks=tuple(chunks))

    def _close(self) -> None:
        self._digests.append(self._open.hexdigest())
        self._open = xxhash.xxh3_128()
        self._filled = 0


def chunk_span(digest: FileDigest, index: int) -> tuple[int, int]:
    """First byte and length of chunk ``index``."""
    start = index * digest.chunk_bytes
    return start, min(digest.chunk_bytes, digest.size - start)


def chunk_matches(pieces: Iterable[memoryview], digest: FileDigest, index: int) -> bool:
    """Whether the bytes of chunk ``index`` still have the digest they were written with."""
    hashed, size = xxhash.xxh3_128(), 0
    for piece in pieces:
        hashed.update(piece)
        size += len(piece)
    return size == chunk_span(digest, index)[1] and hashed.hexdigest() == digest.chunks[index]


def open_data_file(path: Path) -> FileIO:
    """Open without following a link and without waiting on a pipe. Raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EISDIR, "not a regular file", str(path))
        return FileIO(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
