"""A file of tokens that is there whole, with its record, or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from trainwright_trainer.checkpoint.durable import replace_file, sync_directory
from trainwright_trainer.checkpoint.storage import storage_errors
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.data.token_record import TokenRecord, record_path


class TokenDraft:
    """A file that is being written. :meth:`publish` gives it its name."""

    def __init__(self, path: Path, temporary: Path, file: BinaryIO) -> None:
        self._path, self._temporary, self._file = path, temporary, file

    def write(self, data: bytes) -> None:
        with storage_errors("write", self._temporary):
            self._file.write(data)

    def publish(self, record: TokenRecord) -> None:
        """Make it durable. The record comes first: tokens that a reader finds have theirs."""
        with storage_errors("write", self._temporary):
            self._file.flush()
            os.fsync(self._file.fileno())
        replace_file(record_path(self._path), record.model_dump_json(indent=1).encode() + b"\n")
        with storage_errors("write", self._path):
            os.replace(self._temporary, self._path)
        sync_directory(self._path.parent)


@contextmanager
def drafting(path: Path) -> Iterator[TokenDraft]:
    """Write ``path`` by way of a hidden file beside it, which goes if the block fails, and is written anew after a kill.

    Raises:
        InvalidRunError: There is a file already, or another process writes it.
        StorageError: The volume refuses.
    """
    temporary = path.with_name(f".{path.name}.partial")
    with storage_errors("write", temporary), open(temporary, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidRunError(f"another process writes {path}; wait for it, or name another file") from None
        if path.exists():
            with suppress(OSError):
                temporary.unlink()
            raise InvalidRunError(f"{path} is there already; remove it, or name another file")
        os.ftruncate(file.fileno(), 0)
        try:
            yield TokenDraft(path, temporary, file)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
