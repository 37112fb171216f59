"""Gathering: every worker waits until all are there, before TensorFlow begins to.

``MultiWorkerMirroredStrategy`` waits inside a call that holds Python's lock, without an end that could be chosen: meanwhile
nothing answers the supervisor, and no timer runs. So the workers meet first, each on the very port that is its own in
``TF_CONFIG``, and let go of it when everybody has reached everybody.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import RankError

_GREETING, _ANSWER = b"trainwright worker ", b"here\n"
_CONNECT_SECONDS, _PAUSE_SECONDS = 2.0, 0.2
_MOST_BYTES = 64


class WorkersNeverCameError(RankError):
    """Somebody in ``TF_CONFIG`` did not answer in time."""

    exit_code: ClassVar[ExitCode] = ExitCode.PEERS_NEVER_CAME


class PortTakenError(RankError):
    """This worker's own port is in use. Worth another try, perhaps on another node."""


def gather(addresses: Sequence[str], rank: int, bind: str, seconds: float) -> None:
    """Wait until every worker has answered this one, and has been answered by it.

    Args:
        addresses: ``host:port`` of each worker, by rank.
        rank: This worker's.
        bind: The address to listen on.
        seconds: How long to wait.

    Raises:
        WorkersNeverCameError: Not all came; the message has their addresses.
        PortTakenError: Something else listens on this worker's port.
    """
    others = {number for number in range(len(addresses)) if number != rank}
    with _Door(bind, _split(addresses[rank])[1], others) as door:
        reached, deadline = set[int](), time.monotonic() + seconds
        while reached != others or door.greeted != others:
            reached |= {number for number in others - reached if _answers(addresses[number], rank)}
            if time.monotonic() > deadline:
                silent = [addresses[number] for number in sorted((others - reached) | (others - door.greeted))]
                raise WorkersNeverCameError(
                    f"not all workers came within {seconds:g} s: nothing was heard of {', '.join(silent)}; look at those pods, "
                    "and whether their names resolve in this one"
                )
            time.sleep(_PAUSE_SECONDS)


class _Door:
    """Answers each peer that greets, in a thread, and remembers it."""

    def __init__(self, bind: str, port: int, expected: set[int]) -> None:
        self._expected, self._greeted = expected, set[int]()
        try:
            self._listener = socket.create_server((bind, port))
        except OSError as error:
            raise PortTakenError(f"this worker cannot listen on {bind} port {port}: {error.strerror}") from error
        self._closed = threading.Event()
        self._listener.settimeout(_PAUSE_SECONDS)
        self._thread = threading.Thread(target=self._serve, name="gathering", daemon=True)

    @property
    def greeted(self) -> set[int]:
        return set(self._greeted)

    def __enter__(self) -> _Door:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:  # nobody came for a while
                continue
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_CONNECT_SECONDS)
            line = connection.makefile("rb").readline(_MOST_BYTES)
            number = line.removeprefix(_GREETING).strip()
            if line.startswith(_GREETING) and number.isdigit() and int(number) in self._expected:
                connection.sendall(_ANSWER)
                self._greeted.add(int(number))
        except OSError:
            return  # it will come again


def _answers(address: str, rank: int) -> bool:
    """Whether a worker is there: a server of TensorFlow's that an attempt before this one left behind gives another answer."""
    try:
        with socket.create_connection(_split(address), timeout=_CONNECT_SECONDS) as connection:
            connection.sendall(_GREETING + str(rank).encode() + b"\n")
            return connection.makefile("rb").readline(_MOST_BYTES) == _ANSWER
    except OSError:
        return False


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
