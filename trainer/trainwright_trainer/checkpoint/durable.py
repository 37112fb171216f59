"""Durable files: what is here after a crash or a power cut is either the old content or the new one, never a mixture.

A rename is durable only when the directory that holds it was fsynced too (fsync(2): "Calling fsync() does not necessarily
ensure that the entry in the directory containing the file has also reached disk").
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from trainwright_trainer.checkpoint.storage import storage_errors

_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP)


def sync_directory(path: Path) -> None:
    """Fsync a directory. File systems that cannot (some FUSE and SMB mounts say EINVAL) make entries durable themselves."""
    with storage_errors("sync", path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise
        finally:
            os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory and its parents durably. One that exists already is fine, whoever made it."""
    with storage_errors("reach", path):
        if path.is_dir():
            return
    if path.parent != path:
        make_directory(path.parent)
    with storage_errors("make directory", path):
        path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Write a small file so that a reader sees it whole or not at all, and that it stays.

    Raises :class:`StorageError`; what was at ``path`` before is then still there, unless only the last fsync failed.
    """
    # The token keeps writers apart: process ids do not, since the writer may be process 1 in each of two pods.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with storage_errors("write", path):
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    sync_directory(path.parent)
