"""The directory that is written: ``config.json`` and safetensors, in one file or several with an index."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from trainwright_trainer.checkpoint import tensor_file
from trainwright_trainer.checkpoint.durable import make_directory, replace_file, sync_directory
from trainwright_trainer.checkpoint.storage import storage_errors
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.model.weight_files import INDEX_FILE, SINGLE_FILE

SHARD_BYTES = 5 * 10**9
"""Of tensors in one file, which is also what the host holds at once; more only for a tensor that is larger by itself."""


@contextmanager
def appearing(output: Path) -> Iterator[Path]:
    """A directory to write into, which becomes ``output`` at the end, whole or not at all.

    Raises:
        InvalidRunError: Something is there already.
        StorageError: The volume failed.
    """
    output = output.absolute()
    with storage_errors("read", output):
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise InvalidRunError(f"{output} is there already and is not empty: name another directory, or move it away")
    make_directory(output.parent)
    draft = output.with_name(f".{output.name}.{secrets.token_hex(4)}.partial")
    try:
        with storage_errors("write", draft):
            draft.mkdir()
            yield draft
        sync_directory(draft)
        with storage_errors("write", output):
            os.rename(draft, output)
        sync_directory(output.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


class ShardWriter:
    """Writes tensors in the order in which they come, ``SHARD_BYTES`` to a file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, Tensor] = {}
        self._held_bytes = 0
        self._parts: list[tuple[Path, list[str]]] = []
        self.size = 0
        """Bytes of all tensors so far."""

    def add(self, name: str, tensor: Tensor) -> None:
        size = tensor.numel() * tensor.element_size()
        if self._held and self._held_bytes + size > SHARD_BYTES:
            self._write()
        self._held[name] = tensor
        self._held_bytes += size
        self.size += size

    def close(self) -> int:
        """Write the rest, give the files their names, and write the index if there are several. Gives the number of files."""
        self._write()
        if len(self._parts) == 1:
            self._parts[0][0].rename(self._directory / SINGLE_FILE)
            return 1
        weight_map = {}
        for number, (path, names) in enumerate(self._parts, start=1):
            final = f"model-{number:05d}-of-{len(self._parts):05d}.safetensors"
            path.rename(self._directory / final)
            weight_map.update(dict.fromkeys(names, final))
        index = {"metadata": {"total_size": self.size}, "weight_map": dict(sorted(weight_map.items()))}
        replace_file(self._directory / INDEX_FILE, (json.dumps(index, indent=2) + "\n").encode())
        return len(self._parts)

    def _write(self) -> None:
        path = self._directory / f"part-{len(self._parts)}"
        with path.open("wb") as file:
            for piece in tensor_file.encode(self._held):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        self._parts.append((path, list(self._held)))
        self._held, self._held_bytes = {}, 0
