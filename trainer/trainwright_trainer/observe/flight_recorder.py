"""torch's flight recorder: which collectives each rank has entered, kept by NCCL's process group and dumped on demand.

Source of names and defaults: torch, ``ProcessGroupNCCL.hpp`` and ``FlightRecorder.hpp``; ``torchfrtrace`` reads the dumps.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

ENTRIES = 2000
"""Latest collectives to remember, about 1 MiB a rank."""
ANSWER_SECONDS = 6.0
"""NCCL's watchdog looks at the pipe once a second, and then finds names for its stacks: 2.3 s in all on an H100, torch 2.11."""
LOOK_SECONDS = 0.1


def environment(attempt: str) -> dict[str, str]:
    """Of a rank: record, dump when a collective times out, and listen at a pipe for a request to dump."""
    return {
        "TORCH_FR_BUFFER_SIZE": str(ENTRIES),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": f"{_stem(attempt)}-rank-",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{_stem(attempt)}-pipe-",
    }


def collect(attempt: str, ranks: Sequence[int], stopped: Collection[int], directory: Path) -> None:
    """Ask ranks of this pod for their dumps and move what comes into a directory. Ranks without NCCL have no pipe and give none.

    Blocks for some seconds. Raises ``OSError`` where the directory cannot be written.

    Args:
        stopped: Those of them whose processes cannot answer; what they have dumped before is taken.
    """
    asked = [rank for rank in ranks if rank not in stopped and _ask(Path(f"{_stem(attempt)}-pipe-{rank}.pipe"))]
    deadline, before = time.monotonic() + ANSWER_SECONDS, list[int]()
    while time.monotonic() < deadline:
        sizes = [_size(_dump(attempt, rank)) for rank in asked]
        if sizes == before and all(sizes):  # a file that grows is not whole
            break
        before = sizes
        time.sleep(LOOK_SECONDS)
    for rank in ranks:
        if _dump(attempt, rank).exists():
            shutil.move(_dump(attempt, rank), directory / f"rank-{rank}.nccl")


def _stem(attempt: str) -> str:
    return os.path.join(tempfile.gettempdir(), f"trainwright-{attempt}")


def _dump(attempt: str, rank: int) -> Path:
    return Path(f"{_stem(attempt)}-rank-{rank}")


def _size(path: Path) -> int:
    """0 where it is not there yet."""
    return path.stat().st_size if path.exists() else 0


def _ask(pipe: Path) -> bool:
    with suppress(OSError):
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)  # fails where nobody reads
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)
        return True
    return False
