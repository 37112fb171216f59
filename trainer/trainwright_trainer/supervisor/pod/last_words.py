"""What a script wrote last to standard error: passed on as it comes, and kept for the pod's termination message."""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress

KEPT_BYTES = 4096
LINES, CHARACTERS = 3, 600
"""Of a message: the end of a traceback, and no more than one that names the rest can hold."""
DRAIN_SECONDS = 0.5
"""For what a script wrote just before it ended. Others may hold its output open for longer."""
_READ_BYTES = 1 << 16
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class LastWords:
    """A pipe, read by a thread of its own: it may wait for the pod's own standard error, and the supervisor never does."""

    def __init__(self) -> None:
        self._ours, self.descriptor = os.pipe()
        self._kept = b""
        self._thread = threading.Thread(target=self._pass_on, name="standard-error", daemon=True)

    def begin(self) -> None:
        """The script has its end of the pipe, and is the only one."""
        os.close(self.descriptor)
        self._thread.start()

    def read(self) -> str:
        """The last lines that are not empty, in one; empty where it said nothing. Call when the script has ended."""
        self._thread.join(DRAIN_SECONDS)
        text = _COLOURS.sub("", self._kept.decode(errors="replace")).replace("\r", "\n")
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        return " | ".join(lines[-LINES:])[-CHARACTERS:]

    def _pass_on(self) -> None:
        with suppress(OSError):
            while data := os.read(self._ours, _READ_BYTES):
                self._kept = (self._kept + data)[-KEPT_BYTES:]
                _write(data)
        os.close(self._ours)


def _write(data: bytes) -> None:
    """To the pod's own standard error. One that is gone loses the words, and the script goes on."""
    with suppress(OSError):
        while data:
            data = data[os.write(2, data):]
