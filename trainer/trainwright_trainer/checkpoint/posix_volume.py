"""A lineage's directory on a POSIX file system: local, NFS, or another network file system with POSIX rules."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path

from trainwright_trainer.checkpoint.data_file import READ_BYTES, FileDigest, open_data_file
from trainwright_trainer.checkpoint.storage import (
    DataGoneError,
    append_line,
    create_file,
    make_directory,
    replace_file,
    storage_errors,
    sync_directory,
)

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)


class PosixVolume:
    """See :class:`volume.Volume`. A data file is where the library that reads or writes it finds it: nothing is ever copied."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def location(self, key: str) -> str:
        return str(self.directory / key)

    def entries(self, directory: str) -> list[str]:
        with storage_errors("list", self.directory / directory):
            try:
                return sorted(os.listdir(self.directory / directory))
            except FileNotFoundError:
                return []

    def read(self, key: str) -> bytes | None:
        with storage_errors("read", self.directory / key):
            try:
                return (self.directory / key).read_bytes()
            except FileNotFoundError:
                return None

    def replace(self, key: str, data: bytes) -> None:
        replace_file(self._in_directory(key), data)

    def create(self, key: str, data: bytes) -> bool:
        return create_file(self._in_directory(key), data)

    def overwrite(self, key: str, data: bytes) -> None:
        # In place: on NFS another client's open() asks the server for the state of a file that stays (close-to-open, nfs(5)).
        path = self._in_directory(key)
        with storage_errors("write", path):
            path.write_bytes(data)

    def append(self, key: str, line: bytes) -> None:
        append_line(self._in_directory(key), line)

    def move(self, source: str, target: str) -> None:
        path = self.directory / source
        with storage_errors("set aside", path), suppress(FileNotFoundError):
            os.rename(path, self.directory / target)
            sync_directory(path.parent)

    def remove(self, key: str) -> bool:
        path = self.directory / key
        with storage_errors("remove", path):
            try:
                path.unlink()
            except FileNotFoundError:
                return False
        sync_directory(path.parent)
        return True

    def make_tree(self, tree: str) -> None:
        make_directory(self.directory / tree)

    def remove_tree(self, tree: str) -> bool:
        path = self.directory / tree
        with storage_errors("remove", path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                return False
        sync_directory(path.parent)
        return True

    def set_aside(self, tree: str, target: str) -> str:
        self.move(tree, target)
        return target

    def write(self, tree: str, name: str, pieces: Iterable[memoryview]) -> None:
        path = self.local(tree, name)
        with storage_errors("create", path):
            file = FileIO(path, "xb")
        try:
            for piece in pieces:
                with storage_errors("write", path):
                    _write_all(file, piece)
            with storage_errors("write", path):
                os.fsync(file.fileno())
                file.close()  # network file systems may report a lack of space only now
        except BaseException:
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                path.unlink()
            raise
        self._sync_directories(path, self.directory / tree)

    def adopt(self, tree: str, name: str, seen: Callable[[memoryview], None]) -> None:
        path = self.directory / tree / name
        with storage_errors("read", path), open_data_file(path) as file:
            os.fsync(file.fileno())
            buffer = memoryview(bytearray(READ_BYTES))
            while count := file.readinto(buffer):
                seen(buffer[:count])
        self._sync_directories(path, self.directory / tree)

    def local(self, tree: str, name: str) -> Path:
        path = self.directory / tree / name
        if path.parent != self.directory / tree:
            make_directory(path.parent)
        return path

    def fetch(self, tree: str, digest: FileDigest) -> Path:
        return self.directory / tree / digest.name

    def sizes(self, tree: str, names: Iterable[str]) -> Mapping[str, int | DataGoneError]:
        return {name: self._size(tree, name) for name in names}

    def _size(self, tree: str, name: str) -> int | DataGoneError:
        try:
            with self._open(tree, name) as file:
                return os.fstat(file.fileno()).st_size
        except DataGoneError as gone:
            return gone

    def pieces(self, tree: str, name: str, start: int, length: int) -> Iterator[memoryview]:
        buffer = memoryview(bytearray(min(length, READ_BYTES)))
        with self._open(tree, name) as file, storage_errors("read", self.directory / tree / name):
            file.seek(start)
            while length and (count := file.readinto(buffer[: min(length, READ_BYTES)])):
                length -= count
                yield buffer[:count]

    def close(self) -> None:
        """Nothing was copied."""

    def _open(self, tree: str, name: str) -> FileIO:
        path = self.directory / tree / name
        with storage_errors("read", path):
            try:
                return open_data_file(path)
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                raise DataGoneError(f"{path}: {error.strerror}") from error

    def _in_directory(self, key: str) -> Path:
        path = self.directory / key
        make_directory(path.parent)
        return path

    def _sync_directories(self, path: Path, tree: Path) -> None:
        for parent in path.parents:
            sync_directory(parent)
            if parent == tree:
                return


def _write_all(file: FileIO, view: memoryview) -> None:
    """Linux writes at most 2 GiB in one call, and less when the volume fills up: the next call then says why."""
    while len(view):
        view = view[file.write(view) :]
