"""Time and peak memory of a command with everything that it starts."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

EVERY = 0.05
"""Seconds between two looks at the processes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a command."""

    seconds: float
    """Wall-clock time."""
    peaks: dict[str, int]
    """Program (python, node) -> the sum of its processes' peaks of resident memory, in bytes. Empty where there is no /proc."""
    output: str

    def less(self, seconds: float) -> Measured:
        return Measured(self.seconds - seconds, self.peaks, self.output)


def measure(command: Sequence[str]) -> Measured:
    """Run a command that must succeed."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output, tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        ended, seen = Event(), dict[int, tuple[str, int]]()
        watcher = Thread(target=_watch, args=(process.pid, ended, seen))
        watcher.start()
        code = process.wait()
        seconds = time.perf_counter() - started
        ended.set()
        watcher.join()
        if code:
            errors.seek(0)
            sys.exit(f"{' '.join(command)} ended with {code}:\n{errors.read()[-2000:]}")
        output.seek(0)
        peaks: dict[str, int] = {}
        for program, peak in seen.values():
            peaks[program] = peaks.get(program, 0) + peak
        return Measured(seconds, peaks, output.read())


def _watch(root: int, ended: Event, seen: dict[int, tuple[str, int]]) -> None:
    while True:
        for pid in _tree(root):
            if found := _program_and_peak(pid):
                seen[pid] = found
        if ended.wait(EVERY):
            return


def _tree(root: int) -> list[int]:
    """The process and all below it."""
    found = [root]
    for pid in found:
        try:
            threads = list(Path(f"/proc/{pid}/task").glob("*/children"))
        except OSError:  # it has ended
            continue
        for children in threads:
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:  # likewise
                continue
    return found


def _program_and_peak(pid: int) -> tuple[str, int] | None:
    try:
        program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    peak = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
    name = Path(program).name
    return None if peak is None else ("python" if name.startswith(("python", "trainwright")) else name, peak)
