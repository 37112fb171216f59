"""Draft: a checkpoint's data while its ranks write it, before it is committed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias

from trainwright_trainer.checkpoint.data_file import open_data_file
from trainwright_trainer.checkpoint.digest import CHUNK_BYTES, ChunkedHash, FileDigest, digest_of_file
from trainwright_trainer.checkpoint.durable import make_directory, sync_directory
from trainwright_trainer.checkpoint.layout import CheckpointName, checked_file_name
from trainwright_trainer.checkpoint.storage import storage_errors

Piece: TypeAlias = "bytes | bytearray | memoryview[Any]"


class Draft:
    """The data directory of one step and attempt. Any rank may write to it, each rank its own files."""

    def __init__(self, directory: Path, name: CheckpointName, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.directory = directory
        self.name = name
        self._chunk_bytes = chunk_bytes

    def path(self, name: str) -> Path:
        """Where a library shall write the file ``name``; hand it to :meth:`digest_existing` afterwards."""
        path = self.directory / checked_file_name(name)
        if path.parent != self.directory:
            make_directory(path.parent)
        return path

    def write(self, name: str, chunks: Iterable[Piece]) -> FileDigest:
        """Write a new file from pieces of any size, hashing them on the way, and make it durable.

        The digest is of the bytes in memory, so damage on the way to the volume is found by a later verify. A view may have
        any shape and item type but must be C-contiguous.

        Raises:
            StorageError: the volume refused; the partial file is removed.
            ValueError: a bad name, or a view that is not contiguous.
        """
        path = self.path(name)
        hashed = ChunkedHash(self._chunk_bytes)
        with storage_errors("create", path):
            file = FileIO(path, "xb")
        try:
            for chunk in chunks:
                view = _flat(chunk)
                hashed.update(view)
                with storage_errors("write", path):
                    _write_all(file, view)
            with storage_errors("write", path):
                os.fsync(file.fileno())
                file.close()  # network file systems may report a lack of space only now
        except BaseException:
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                path.unlink()
            raise
        self._sync_directories(path)
        return hashed.digest(name)

    def digest_existing(self, name: str) -> FileDigest:
        """Make durable and digest a file that a library wrote at :meth:`path`.

        Raises :class:`StorageError` where the file is missing, is no regular file or cannot be read.
        """
        path = self.directory / checked_file_name(name)
        with storage_errors("read", path), open_data_file(path) as file:
            os.fsync(file.fileno())
            digest = digest_of_file(file, name, self._chunk_bytes)
        self._sync_directories(path)
        return digest

    def discard(self) -> None:
        """Remove what was written, after a save that failed. The caller sees to it that no rank still writes."""
        with storage_errors("remove", self.directory), suppress(FileNotFoundError):
            shutil.rmtree(self.directory)

    def _sync_directories(self, path: Path) -> None:
        for parent in path.parents:
            sync_directory(parent)
            if parent == self.directory:
                return


def _flat(chunk: Piece) -> memoryview:
    view = memoryview(chunk)
    if not view.c_contiguous:
        raise ValueError("a piece of checkpoint data is not contiguous: copy it first")
    return view.cast("B") if view.nbytes else memoryview(b"")  # cast refuses a zero in the shape


def _write_all(file: FileIO, view: memoryview) -> None:
    """Linux writes at most 2 GiB in one call, and less when the volume fills up: the next call then says why."""
    while len(view):
        view = view[file.write(view) :]
