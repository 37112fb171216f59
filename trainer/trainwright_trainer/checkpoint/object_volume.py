"""A lineage under a prefix of an object store, through fsspec's s3fs: S3, and whatever speaks its protocol.

Credentials, region and endpoint come from where every AWS client looks (``AWS_ACCESS_KEY_ID``, a service account's role,
``AWS_REGION``, ``AWS_ENDPOINT_URL``), and never from a run's specification.

There are no directories and no renames here; an object is there whole, once its upload is completed, or not at all. What an
upload that was cut off leaves is invisible, and costs money until a lifecycle rule of the bucket ends incomplete uploads.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trainwright_trainer.checkpoint.data_file import READ_BYTES, ChunkedHash, FileDigest, open_data_file
from trainwright_trainer.checkpoint.storage import DataGoneError, StorageError, storage_errors

try:
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
    from botocore.exceptions import ConnectionError as BotoConnectionError
    from s3fs import S3FileSystem
except ImportError as error:
    raise StorageError(
        "use", "s3://", "the package s3fs is not in this image", "install trainwright-trainer[s3], or use a claim"
    ) from error

PART_BYTES = 32 * 2**20
"""Of a multi-part upload, which has at most 10,000 parts: so a data file has at most 312 GiB. Kept in memory, for each file."""
RANGE_BYTES = 16 * 2**20
"""Of one ranged read, and of the pieces that a write is cut into."""
_NO_CONDITION = ("NotImplemented", "501", "InvalidArgument", "InvalidRequest")
_CONFLICT = ("ConditionalRequestConflict", "409")
_CREATE_TRIES = 5

REFUSED = (OSError, BotoCoreError, ClientError)
"""Whatever s3fs raises for a request that did not succeed."""

_ACCESS = (
    "allow the pod's identity s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload there"
)
_CREDENTIALS = "give the pod credentials: a service account with a role, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_REACH = "check AWS_ENDPOINT_URL, the region and the network policy of the namespace"
_BUSY = "the store refused for now: look at its own state, or write less often"
_BUCKET = "make the bucket, or correct the address"


class ObjectVolume:
    """See :class:`volume.Volume`. Libraries that need a path get a copy in a scratch directory of this machine (``TMPDIR``)."""

    def __init__(self, address: str) -> None:
        self._root = address.removeprefix("s3://").strip("/")
        if "/" not in self._root:
            raise ValueError(f"{address} is no place for checkpoints: write s3://bucket/prefix")
        # Listings must never come from s3fs's cache: another process may have written since.
        self._fs: Any = S3FileSystem(
            use_listings_cache=False,
            config_kwargs={"connect_timeout": 10, "read_timeout": 60, "retries": {"mode": "standard", "max_attempts": 3}},
        )
        self._scratch: Path | None = None
        self._scratch_end: weakref.finalize[..., Any] | None = None

    def location(self, key: str) -> str:
        return f"s3://{self._at(key)}"

    def entries(self, directory: str) -> list[str]:
        at = self._at(directory)
        with object_errors("list", self.location(directory)):
            try:
                found = self._fs.ls(at, detail=False, refresh=True)
            except FileNotFoundError:
                return []
        return sorted(path.rstrip("/").rsplit("/", 1)[1] for path in found if path.rstrip("/") != at)

    def read(self, key: str) -> bytes | None:
        with object_errors("read", self.location(key)):
            try:
                data: bytes = self._fs.cat_file(self._at(key))
            except FileNotFoundError:
                return None
        return data

    def replace(self, key: str, data: bytes) -> None:
        with object_errors("write", self.location(key)):
            self._fs.pipe_file(self._at(key), data)

    def create(self, key: str, data: bytes) -> bool:
        """A conditional put. A store that does not know the condition gets a look and a put, which two can do at once."""
        for _ in range(_CREATE_TRIES):
            found = self.read(key)
            if found is not None:
                return found == data  # ours, if the answer to an earlier try got lost on the way
            try:
                self._fs.pipe_file(self._at(key), data, mode="create")
                return True
            except REFUSED as error:
                if code_of(error) in _NO_CONDITION:
                    self.replace(key, data)
                    return True
                if not _lost_a_race(error):
                    with object_errors("write", self.location(key)):
                        raise
        raise StorageError("write", self.location(key), "another writer comes and goes", "see who else writes there")

    def overwrite(self, key: str, data: bytes) -> None:
        self.replace(key, data)

    def append(self, key: str, line: bytes) -> None:
        self.replace(key, (self.read(key) or b"") + line + b"\n")

    def move(self, source: str, target: str) -> None:
        data = self.read(source)
        if data is not None:
            self.replace(target, data)
            self.remove(source)

    def remove(self, key: str) -> bool:
        with object_errors("remove", self.location(key)):
            there: bool = self._fs.exists(self._at(key))
            if there:
                self._fs.rm_file(self._at(key))
        return there

    def make_tree(self, tree: str) -> None:
        """There are no directories."""

    def remove_tree(self, tree: str) -> bool:
        if self._scratch:
            shutil.rmtree(self._scratch / tree, ignore_errors=True)
        found = list(self._find(tree))
        with object_errors("remove", self.location(tree)):
            for start in range(0, len(found), 1000):
                self._fs.rm([f"{self._at(tree)}/{name}" for name in found[start : start + 1000]])
        if found and (left := list(self._find(tree))):  # s3fs does not say which of a bulk it could not remove
            raise StorageError("remove", self.location(f"{tree}/{left[0]}"), "it is still there", "allow s3:DeleteObject")
        return bool(found)

    def set_aside(self, tree: str, target: str) -> str:
        return tree  # renaming would copy every byte; the record's new name says it

    def write(self, tree: str, name: str, pieces: Iterable[memoryview]) -> None:
        location = self.location(f"{tree}/{name}")
        with object_errors("create", location):
            if self._fs.exists(self._at(f"{tree}/{name}")):
                raise StorageError("create", location, "File exists", "something else is in the way: move it")
            file = self._fs.open(self._at(f"{tree}/{name}"), "wb", block_size=PART_BYTES)
        try:
            for piece in pieces:
                for start in range(0, len(piece), RANGE_BYTES):
                    with object_errors("write", location):
                        file.write(piece[start : start + RANGE_BYTES])
            with object_errors("write", location):
                file.close()
        except BaseException:
            with suppress(*REFUSED):
                file.discard()
            file.closed = True  # or its end would complete the upload
            raise

    def adopt(self, tree: str, name: str, seen: Callable[[memoryview], None]) -> None:
        path = self.local(tree, name)
        self.write(tree, name, _read_local(path, seen))
        with suppress(OSError):
            path.unlink()

    def local(self, tree: str, name: str) -> Path:
        path = self._scratch_directory() / tree / name
        with storage_errors("make directory", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def fetch(self, tree: str, digest: FileDigest) -> Path:
        path = self.local(tree, digest.name)
        if path.exists():
            return path
        partial = path.with_name(f"{path.name}.part")
        hashed = ChunkedHash(digest.chunk_bytes)
        with storage_errors("write", partial), open(partial, "wb") as file:
            for piece in self._pieces_or_gone(tree, digest):
                hashed.update(piece)
                file.write(piece)
        if hashed.digest(digest.name) != digest:
            raise self._changed(tree, digest)
        partial.replace(path)
        return path

    def sizes(self, tree: str, names: Iterable[str]) -> Mapping[str, int | DataGoneError]:
        found = self._find(tree)
        return {name: found[name] if name in found else self._size(tree, name) for name in names}

    def _size(self, tree: str, name: str) -> int | DataGoneError:
        """Of an object that the listing omits, asked for by its name: the listings of some stores come late."""
        with object_errors("read", self.location(f"{tree}/{name}")):
            try:
                return int(self._fs.info(self._at(f"{tree}/{name}"), refresh=True)["size"])
            except FileNotFoundError:
                return self._gone(tree, name)

    def pieces(self, tree: str, name: str, start: int, length: int) -> Iterator[memoryview]:
        for at in range(start, start + length, RANGE_BYTES):
            with object_errors("read", self.location(f"{tree}/{name}")):
                try:
                    data = self._fs.cat_file(self._at(f"{tree}/{name}"), start=at, end=min(at + RANGE_BYTES, start + length))
                except FileNotFoundError as error:
                    raise self._gone(tree, name) from error
                except OSError as error:
                    if code_of(error) in ("InvalidRange", "416"):
                        return  # it became shorter
                    raise
            yield memoryview(data)

    def close(self) -> None:
        if self._scratch_end:
            self._scratch_end()
        self._scratch = self._scratch_end = None

    def _at(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root

    def _find(self, tree: str) -> dict[str, int]:
        """Names in a tree, with their bytes."""
        with object_errors("list", self.location(tree)):
            found = self._fs.find(self._at(tree), detail=True)
        return {path.removeprefix(f"{self._at(tree)}/"): int(info["size"]) for path, info in found.items()}

    def _pieces_or_gone(self, tree: str, digest: FileDigest) -> Iterator[memoryview]:
        try:
            yield from self.pieces(tree, digest.name, 0, digest.size)
        except DataGoneError as gone:
            raise self._changed(tree, digest) from gone

    def _changed(self, tree: str, digest: FileDigest) -> StorageError:
        location = self.location(f"{tree}/{digest.name}")
        return StorageError("read", location, "it changed after it was verified", "see who else writes there")

    def _gone(self, tree: str, name: str) -> DataGoneError:
        return DataGoneError(f"{self.location(f'{tree}/{name}')}: no such object")

    def _scratch_directory(self) -> Path:
        if self._scratch is None:
            with storage_errors("make directory", Path(tempfile.gettempdir())):
                self._scratch = Path(tempfile.mkdtemp(prefix="trainwright-checkpoint-"))
            self._scratch_end = weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        return self._scratch


def _read_local(path: Path, seen: Callable[[memoryview], None]) -> Iterator[memoryview]:
    with storage_errors("read", path), open_data_file(path) as file:
        buffer = memoryview(bytearray(READ_BYTES))
        while count := file.readinto(buffer):
            seen(buffer[:count])
            yield buffer[:count]


def _lost_a_race(error: BaseException) -> bool:
    return isinstance(error, FileExistsError) or code_of(error) in ("PreconditionFailed", "412", *_CONFLICT)


def code_of(error: BaseException) -> str:
    """The store's own word for an error, such as ``PreconditionFailed``; empty where it has none."""
    cause = error if isinstance(error, ClientError) else error.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""


@contextmanager
def object_errors(doing: str, location: str) -> Iterator[None]:
    """Turn whatever the store refuses into a :class:`StorageError`."""
    try:
        yield
    except REFUSED as error:
        reason = " ".join(str(error.strerror or error if isinstance(error, OSError) else error).split())
        raise StorageError(doing, location, reason or type(error).__name__, _remedy(error)) from error


def _remedy(error: BaseException) -> str:
    if isinstance(error, NoCredentialsError):
        return _CREDENTIALS
    if isinstance(error, BotoConnectionError | HTTPClientError | ConnectionError | TimeoutError):
        return _REACH
    if code_of(error) == "NoSuchBucket":
        return _BUCKET
    if isinstance(error, PermissionError):
        return _ACCESS
    if isinstance(error, OSError) and error.errno in (errno.EBUSY, errno.EREMOTEIO):
        return _BUSY
    return "check the object store"
