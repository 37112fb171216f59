"""A second jsii kernel, in a process of its own: it takes files from the end of the work while we take them from its start.

A kernel answers one call at a time, and Python waits for it: together they keep one CPU busy. A file's bytes depend on nothing
but the file, so who writes it does not show. What the second process could not write is left to the caller, who writes it or
says why not; so an error there needs no message of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import IO, Any

File = tuple[str, Sequence[Mapping[str, Any]]]
"""Absolute path, and JSON-safe manifests."""

FEWEST = 400
"""Files from which on a second process pays off: measured on two CPUs, it breaks even at 250 and saves a tenth at 400."""

CHUNK = 8
"""Files handed over at a time: few enough that neither process waits long for the other at the end."""

WRITTEN = b"written\n"


def pays_off(files: int) -> bool:
    """Whether there are files enough, and a CPU that is free for us."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return files >= FEWEST and cpus > 1 and bool(sys.executable)


@contextmanager
def second_kernel(work: deque[File]) -> Iterator[deque[File]]:
    """Take files from the right of ``work`` and write them, until the caller has taken the others from its left.

    Where the caller's block raises, the second process ends after the files it has.

    Yields:
        The files that it took and could not write; complete after the block.
    """
    left: deque[File] = deque()
    process = _start()
    if process is None:
        yield left
        return
    with process:
        feeder = Thread(target=_feed, args=(work, process, left), daemon=True)
        feeder.start()
        try:
            yield left
        finally:
            work.clear()
            feeder.join()


def _start() -> subprocess.Popen[bytes] | None:
    """The process; None where the system has no room for one, and one kernel writes everything."""
    # -P: beside this file lie modules that are not meant as top-level ones.
    command = [sys.executable, "-P", __file__]
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    except OSError:
        return None


def _feed(work: deque[File], process: subprocess.Popen[bytes], left: deque[File]) -> None:
    """Hand over chunk after chunk; end with the work, or with the first chunk that is not answered."""
    requests, answers = process.stdin, process.stdout
    assert requests is not None  # noqa: S101 - a pipe, as the next one
    assert answers is not None  # noqa: S101
    while chunk := _take(work):
        try:
            requests.write(json.dumps(chunk).encode() + b"\n")
            requests.flush()
            written = answers.readline() == WRITTEN
        except OSError:
            written = False
        if not written:
            left.extend(chunk)
            break
    with suppress(OSError):  # what a broken pipe did not take is still in the buffer
        requests.close()


def _take(work: deque[File]) -> list[File]:
    chunk: list[File] = []
    try:
        while len(chunk) < CHUNK:
            chunk.append(work.pop())
    except IndexError:  # the other side took the last one
        pass
    return chunk


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Write the files of each line, and answer it, until the other process closes its end or dies."""
    from cdk8s import Yaml  # Node is the one that the other process chose, by JSII_NODE

    for line in requests:
        for path, manifests in json.loads(line):
            Yaml.save(path, manifests)
        answers.write(WRITTEN)
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
