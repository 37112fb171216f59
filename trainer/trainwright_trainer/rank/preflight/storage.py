"""Storage check: can this node write to the checkpoint volume durably, and read back what it wrote?"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from trainwright_trainer.checkpoint.durable import make_directory, sync_directory
from trainwright_trainer.checkpoint.storage import storage_errors
from trainwright_trainer.rank.preflight.failure import UnfitError

BLOCK_BYTES = 1 << 20


class DamagedError(UnfitError):
    """What was read is not what was written."""


def check_storage(directory: Path, name: str, megabytes: int) -> float:
    """Write a file, fsync it, rename it, fsync the directory, read it back, remove it: what a checkpoint needs.

    Args:
        directory: Of the checkpoints; made if it is not there.
        name: Of the file, used by nobody else.
        megabytes: How much to write (2^20 bytes each).

    Returns:
        Seconds for all of it.

    Raises:
        StorageError: The volume refused.
        DamagedError: It gave back other bytes.
    """
    make_directory(directory)
    started = time.perf_counter()
    written, path = directory / f"{name}.tmp", directory / name
    block = hashlib.shake_256(name.encode()).digest(BLOCK_BYTES)  # no volume can compress it away
    with storage_errors("write", path):
        try:
            with written.open("wb") as file:
                for _ in range(megabytes):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            written.rename(path)
            sync_directory(directory)
            with path.open("rb") as file:
                _forget_pages(file.fileno())
                same = all(file.read(BLOCK_BYTES) == block for _ in range(megabytes)) and not file.read(1)
        finally:
            for left in (written, path):
                left.unlink(missing_ok=True)
    if not same:
        raise DamagedError(f"{megabytes} MiB written to {directory} read back as something else")
    return time.perf_counter() - started


def _forget_pages(descriptor: int) -> None:
    """Have the bytes come from the volume and not from this machine's memory, where the system can."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
