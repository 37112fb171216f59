"""What a data volume refuses, in one sentence with the path, and whether another try is worth it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.contract.failures import DataError

_VOLUME_FAILED = frozenset({errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNRESET, errno.EHOSTDOWN})
"""What network and FUSE mounts say when their server is away: the same read may succeed on another node, or later."""


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
        raise DataError(f"{where} cannot be read: {reason}") from error
