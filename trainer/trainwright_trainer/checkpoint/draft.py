"""Draft: a checkpoint's data while its ranks write it, before it is committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from trainwright_trainer.checkpoint.digest import CHUNK_BYTES, ChunkedHash, FileDigest
from trainwright_trainer.checkpoint.layout import CheckpointName, checked_file_name, data_key
from trainwright_trainer.checkpoint.volume import Volume

Piece: TypeAlias = "bytes | bytearray | memoryview[Any]"


class Draft:
    """The data of one step and attempt. Any rank may write to it, each rank its own files.

    Safe from any thread, and from several at once for different files: a draft keeps no state. A call blocks its own thread
    alone; hashing and writing let other threads run (xxhash and file objects release the interpreter lock). The memory behind
    ``chunks`` must not change until :meth:`write` took it, so a save beside training copies its tensors first.
    """

    def __init__(self, volume: Volume, name: CheckpointName, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.name = name
        self._volume = volume
        self._tree = data_key(name)
        self._chunk_bytes = chunk_bytes

    def path(self, name: str) -> Path:
        """Where a library shall write the file ``name``; hand it to :meth:`digest_existing` afterwards.

        On an object store this is a scratch file on this machine, of the same relative place.
        """
        return self._volume.local(self._tree, checked_file_name(name))

    def write(self, name: str, chunks: Iterable[Piece]) -> FileDigest:
        """Write a new file from pieces of any size, hashing them on the way, and make it durable.

        The digest is of the bytes in memory, so damage on the way to the volume is found by a later verify. A view may have
        any shape and item type but must be C-contiguous.

        Raises:
            StorageError: the volume refused; the partial file is removed.
            ValueError: a bad name, or a view that is not contiguous.
        """
        hashed = ChunkedHash(self._chunk_bytes)
        self._volume.write(self._tree, checked_file_name(name), _hashed(chunks, hashed))
        return hashed.digest(name)

    def digest_existing(self, name: str) -> FileDigest:
        """Make durable and digest a file that a library wrote at :meth:`path`; on an object store it is uploaded now.

        Raises :class:`StorageError` where the file is missing, is no regular file or cannot be read.
        """
        hashed = ChunkedHash(self._chunk_bytes)
        self._volume.adopt(self._tree, checked_file_name(name), hashed.update)
        return hashed.digest(name)

    def discard(self) -> None:
        """Remove what was written, after a save that failed. The caller sees to it that no rank still writes."""
        self._volume.remove_tree(self._tree)


def _hashed(chunks: Iterable[Piece], hashed: ChunkedHash) -> Iterator[memoryview]:
    for chunk in chunks:
        view = _flat(chunk)
        hashed.update(view)
        yield view


def _flat(chunk: Piece) -> memoryview:
    view = memoryview(chunk)
    if not view.c_contiguous:
        raise ValueError("a piece of checkpoint data is not contiguous: copy it first")
    return view.cast("B") if view.nbytes else memoryview(b"")  # cast refuses a zero in the shape
