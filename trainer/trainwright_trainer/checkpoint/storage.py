"""Files on a volume: durable writes, and errors that name the path and what to do about it.

Durable: what is here after a crash or a power cut is either the old content or the new one, never a mixture. A rename is durable
only when the directory that holds it was fsynced too (fsync(2): "Calling fsync() does not necessarily ensure that the entry in
the directory containing the file has also reached disk").
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP)
_NO_LINK = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


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
            _write_durably(temporary, data)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    sync_directory(path.parent)


def create_file(path: Path, data: bytes) -> bool:
    """Write a small file as :func:`replace_file` does, and only if there is none. Of any number of processes, one gets True.

    link(2) refuses a name that is taken, in one operation of the file system, and on NFS of the server. Its answer may get lost
    on the way, so a refusal counts as ours where the content is ours. A file system without hard links (FAT, some FUSE and SMB
    mounts) gets a look and a rename, which two processes can do at the same moment.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with storage_errors("write", path):
        try:
            _write_durably(temporary, data)
            created = _link(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        temporary.unlink(missing_ok=True)
        created = created or _holds(path, data)
    sync_directory(path.parent)
    return created


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file durably. What a crash cut off before stays a line of its own."""
    with storage_errors("write", path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            left = memoryview((b"\n" if torn else b"") + line + b"\n")
            while len(left):
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    if not size:
        sync_directory(path.parent)


def _write_durably(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _link(source: Path, target: Path) -> bool:
    """Whether ``target`` is the file now, and was not there before."""
    try:
        os.link(source, target)
    except (FileExistsError, FileNotFoundError):  # not found: whoever was faster cleaned up after us
        return False
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        if target.exists():
            return False
        os.replace(source, target)
    return True


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except FileNotFoundError:
        return False  # removed since the link was refused
