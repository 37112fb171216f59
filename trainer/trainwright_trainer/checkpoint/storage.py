"""Storage errors: whatever the volume refuses becomes one sentence with the path and what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from trainwright_trainer.contract.exit_codes import ExitCode

_CHECK_MOUNT = "check that the claim is mounted there and that nothing else uses the path"
_CHECK_ACCESS = "give the pod's user write access to the volume (fsGroup, or the owner of the directory)"
_CHECK_VOLUME = "the volume itself failed: look at the events of the claim and the log of the storage"

REMEDIES = {
    errno.ENOSPC: "free space on the volume, or grow the claim",
    errno.EDQUOT: "raise the quota, or remove checkpoints that are not needed",
    errno.EFBIG: "raise the limit on file size (ulimit -f), or use a file system that takes larger files",
    errno.EROFS: "mount the checkpoint claim without read_only",
    errno.EACCES: _CHECK_ACCESS,
    errno.EPERM: _CHECK_ACCESS,
    errno.EIO: _CHECK_VOLUME,
    errno.ESTALE: _CHECK_VOLUME,
    errno.EEXIST: "something else is in the way: move it",
    errno.ENOENT: _CHECK_MOUNT,
    errno.ENOTDIR: _CHECK_MOUNT,
    errno.EISDIR: _CHECK_MOUNT,
    errno.ELOOP: "checkpoints are plain files: replace the symbolic link",
}
"""What a person does about an ``errno``."""


class StorageError(Exception):
    """The volume cannot be read or written. Says where, why and what to do. ``path`` is an address on an object store."""

    exit_code: ClassVar[ExitCode] = ExitCode.STORAGE

    def __init__(self, doing: str, path: Path | str, reason: str, remedy: str) -> None:
        super().__init__(doing, path, reason, remedy)  # all arguments, so that it survives pickling between processes
        self.doing = doing
        self.path = path
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"cannot {self.doing} {self.path}: {self.reason}; {self.remedy}"


class DataGoneError(Exception):
    """A data file is not there, or something that is no file is in its place. The message says which."""


@contextmanager
def storage_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn any ``OSError`` of the block into a :class:`StorageError`, for example ``storage_errors("write", path)``."""
    try:
        yield
    except OSError as error:
        # OSError may name a more exact path than the caller knows, such as a parent directory.
        where = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else path
        remedy = REMEDIES.get(error.errno or 0, "check the volume")
        raise StorageError(doing, where, error.strerror or str(error), remedy) from error
