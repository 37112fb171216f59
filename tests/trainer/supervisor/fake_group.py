"""A process group without torch: rank 0 adds up what all ranks send. Who is gone is a ``ConnectionError`` for the others."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Sequence
from typing import IO


class FakeGroup:
    """Meets by torch's environment variables."""

    def __init__(self) -> None:
        self._rank, self._size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        self._lines: list[IO[str]] = []
        if self._rank == 0:
            listener = socket.create_server(address)
            listener.settimeout(60)
            self._lines = [listener.accept()[0].makefile("rw") for _ in range(self._size - 1)]
        else:
            self._lines = [_connect(address).makefile("rw")]

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        if self._rank == 0:
            sums = [sum(column) for column in zip(values, *map(_receive, self._lines), strict=True)]
            for line in self._lines:
                _send(line, sums)
            return sums
        _send(self._lines[0], list(values))
        return _receive(self._lines[0])


def _connect(address: tuple[str, int]) -> socket.socket:
    for _ in range(600):
        try:
            return socket.create_connection(address, timeout=60)
        except OSError:
            time.sleep(0.1)
    raise ConnectionError("rank 0 never listened")


def _send(line: IO[str], values: list[float]) -> None:
    line.write(json.dumps(values) + "\n")
    line.flush()


def _receive(line: IO[str]) -> list[float]:
    text = line.readline()
    if not text:
        raise ConnectionError("a rank is gone")
    values: list[float] = json.loads(text)
    return values
