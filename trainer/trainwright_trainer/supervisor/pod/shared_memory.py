"""What ranks that were killed leave in /dev/shm: segments of NCCL, of torch's loader of data, of ``multiprocessing``.

They take the pod's memory, and a rank of the next attempt may fail for want of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from trainwright_trainer.observe.log import get_log

DIRECTORY = Path("/dev/shm")  # noqa: S108 - nothing is written there


class SharedMemory:
    """``directory`` as it was before the first attempt. What is there later, and nobody has open or mapped, was an attempt's."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._directory = directory
        self._before = frozenset(self._segments())

    def clear(self) -> list[str]:
        """Remove what ranks left; gives the names. Call when none of them runs any more."""
        new = {path for path in self._segments() if path not in self._before}
        left = sorted(new - _used(new)) if new else []
        for path in left:
            with suppress(OSError):
                path.unlink()
        if left:
            get_log().info("shared_memory_cleared", segments=len(left))
        return [path.name for path in left]

    def _segments(self) -> Iterable[Path]:
        """This user's own."""
        with suppress(OSError):
            for entry in os.scandir(self._directory):
                with suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                        yield Path(entry.path)


def _used(segments: set[Path]) -> set[Path]:
    """Those that a process has open or mapped: of another container, where pods share the host's memory."""
    wanted, used = {str(path): path for path in segments}, set[Path]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            used |= {path for name, path in wanted.items() if name in (process / "maps").read_text()}
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    if (found := wanted.get(os.readlink(descriptor))) is not None:
                        used.add(found)
    return used
