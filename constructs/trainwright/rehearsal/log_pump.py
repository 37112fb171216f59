"""Output of a container: every byte into its log file, every line to whoever listens."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

_CHUNK_BYTES = 1 << 16
LONGEST_LINE = 1 << 20
"""What is longer is handed on in pieces."""
TAIL_LINES = 80
TAIL_BYTES = 2048
"""What the kubelet takes of a log as termination message (FallbackToLogsOnError)."""


class LogPump:
    def __init__(self, path: Path, on_line: Callable[[str], None]) -> None:
        self._path, self._on_line = path, on_line
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> str:
        """The end of the log, at most 80 lines and 2048 bytes."""
        text = "\n".join(self._tail).encode()[-TAIL_BYTES:]
        return text.decode(errors="ignore")

    async def run(self, stream: asyncio.StreamReader) -> None:
        """Until the output closes."""
        pending = b""
        with self._path.open("ab", buffering=0) as log:
            while chunk := await stream.read(_CHUNK_BYTES):
                log.write(chunk)
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self._hand_on(line)
                if len(pending) > LONGEST_LINE:
                    self._hand_on(pending)
                    pending = b""
        if pending:
            self._hand_on(pending)

    def _hand_on(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        self._tail.append(text)
        self._on_line(text)
