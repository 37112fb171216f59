"""A program on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.processes import PATIENCE_SECONDS

PLAIN = {"TERM": "dumb", "NO_COLOR": "1"}


def talk(
    command: list[str], folder: Path, conversation: Sequence[tuple[str, str]] = (), environment: Mapping[str, str] = PLAIN
) -> tuple[int, str]:
    """Run a program on a terminal of its own, 80 columns wide: wait for each text, then type the answer."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        command, cwd=folder, env={**kept, "COLUMNS": "80", **environment}, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said, seen = "", 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        for wanted, answer in conversation:
            while wanted not in said[seen:]:
                assert time.monotonic() < deadline, f"no {wanted!r} in {said!r}"
                more = _read(ours)
                assert more, f"ended before {wanted!r}: {said!r}"
                said += more
            seen += said[seen:].index(wanted) + len(wanted)
            os.write(ours, (answer + ("" if answer == "\x04" else "\n")).encode())
        while more := _read(ours):
            said += more
        return process.wait(PATIENCE_SECONDS), said
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int) -> str:
    """What was said; nothing at the end."""
    try:
        if select.select([terminal], [], [], PATIENCE_SECONDS)[0]:
            return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # Linux, where the other end is closed
        pass
    return ""
