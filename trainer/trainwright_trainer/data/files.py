"""Files of a data volume: what a volume refuses, in one sentence, and several files read as one stream of bytes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.contract.failures import DataError

_VOLUME_FAILED = frozenset({errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNRESET, errno.EHOSTDOWN})
"""What network and FUSE mounts say when their server is away: the same read may succeed on another node, or later."""
SAMPLED_STRETCHES, SAMPLED_BYTES, EDGE_BYTES = 256, 64 * 1024, 4 * 1024
"""What a fingerprint reads: see :meth:`Stream.sample`."""

Bytes = npt.NDArray[np.uint8]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` of the block into an error that ends the run as it should.

    Raises:
        DataError: The file is not there, is no file, or may not be read.
        StorageError: The volume failed.
    """
    try:
        yield
    except OSError as error:
        where = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else path
        reason = error.strerror or str(error)
        if error.errno in _VOLUME_FAILED:
            raise StorageError("read", where, reason, "look at the events of the claim and the log of the storage") from error
        raise DataError(f"{where} cannot be read: {reason}; check the path, and what is mounted there") from error


class Stream:
    """Files end to end, in the order given.

    Raises:
        DataError: A file is missing, may not be read, or is empty.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self._files = [_map(path) for path in self.paths]
        sizes = [len(file) for file in self._files]
        self.starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        """First byte of each file, and the end of the last."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read_into(self, target: Bytes, start: int) -> None:
        """Fill ``target`` with the stream's bytes from ``start`` on, over the ends of files."""
        index, filled = self.file_at(start), 0
        while filled < len(target):
            file, offset = self._files[index], start + filled - int(self.starts[index])
            part = file[offset:offset + len(target) - filled]
            target[filled:filled + len(part)] = part
            index, filled = index + 1, filled + len(part)

    def file_at(self, position: int) -> int:
        """Index of the file that holds this byte."""
        return int(np.searchsorted(self.starts, position, side="right")) - 1

    def sample(self) -> bytes:
        """Bytes that stand for the whole in a fingerprint.

        Each file's size and its first and last 4 KiB, and 256 stretches of 64 KiB at even distances over the stream: at most
        16 MiB and 8 KiB a file, whatever the size. Up to 16 MiB that is every byte; beyond, an edit in place between the
        stretches is not seen, while another file, order, length or tokenizer is.
        """
        parts = [self.starts.astype("<i8").tobytes()]
        for start, end in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            edge = min(EDGE_BYTES, end - start)
            parts += [self._bytes(start, start + edge), self._bytes(end - edge, end)]
        for number in range(SAMPLED_STRETCHES):
            start = number * len(self) // SAMPLED_STRETCHES
            parts.append(self._bytes(start, min(start + SAMPLED_BYTES, len(self))))
        return b"".join(parts)

    def _bytes(self, start: int, end: int) -> bytes:
        target = np.empty(end - start, dtype=np.uint8)
        self.read_into(target, start)
        return target.tobytes()


def _map(path: Path) -> Bytes:
    with reading(path):
        if not path.stat().st_size:
            raise DataError(f"{path} is empty")
        return np.memmap(path, dtype=np.uint8, mode="r")
