"""Data file: opened for reading only if it is a regular file at exactly this path."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path


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
