"""The workers together: the tracker at which they meet, and XGBoost's collective."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from xgboost import collective
from xgboost.core import XGBoostError
from xgboost.tracker import RabitTracker

from trainwright_trainer.boosting.event_loop import EventLoopWatch
from trainwright_trainer.checkpoint.array_file import Array
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import RankError
from trainwright_trainer.contract.layout import BIND_ENV
from trainwright_trainer.contract.spec import Lifecycle, TrackerRendezvous
from trainwright_trainer.rank.group import Alone, LostWorkersError
from trainwright_trainer.rank.place import Place

T = TypeVar("T")

MIN_COLLECTIVE_SECONDS = 300.0
"""Backstop for a worker that is there and silent; the supervisors find one that is gone within seconds."""
_PAUSE_SECONDS = 0.2
_UNANSWERED = "another worker is gone: XGBoost has given up its collectives and left one without an answer"
_NO_TRACKER = ("Failed to connect to the tracker", "Failed to get addr info")
EVERYWHERE = "0.0.0.0"  # noqa: S104 - a pod's network is its own
_ASK_SECONDS = 5.0
_FAREWELL_SECONDS = 10


class PortTakenError(RankError):
    """Something else listens where the tracker should. Worth another try, perhaps on another node."""


_STARTED: list[RabitTracker] = []
"""Kept until the process ends, which ranks do hard: to free a tracker is to wait for its thread, which may go on forever where
the rank fails right after the start (seen with 3.2)."""


class TrackerNotThereError(RankError):
    """Nobody listens where the tracker should be."""

    exit_code: ClassVar[ExitCode] = ExitCode.PEERS_NEVER_CAME


class Tracker:
    """Listens from the start. Ranks follow the workers' numbers: it sorts them by their names.

    It has a port of its own in each attempt, which workers learn at ``port``. XGBoost's tracker does not reuse a port on which
    connections of an attempt before are still waiting out, for a minute on Linux; a socket of Python's does.

    Raises :class:`PortTakenError`.
    """

    def __init__(self, port: int, workers: int, environment: Mapping[str, str]) -> None:
        address = environment.get(BIND_ENV) or EVERYWHERE
        try:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            door = socket.create_server((address, port), family=family, backlog=workers)
        except OSError as error:
            raise PortTakenError(f"the tracker cannot listen on {address} port {port}: {error.strerror}") from error
        self._tracker = RabitTracker(n_workers=workers, host_ip=address, port=0, sortby="task")
        self._tracker.start()
        _STARTED.append(self._tracker)
        answer = f"{self._tracker.worker_args()['dmlc_tracker_port']}\n".encode()
        threading.Thread(target=_answer, args=(door, answer), name="tracker's port", daemon=True).start()

    def close(self) -> None:
        """Wait until every worker has said good-bye; one that hangs does not keep it for long."""
        with suppress(XGBoostError, ValueError):  # all that matters was committed before
            self._tracker.wait_for(_FAREWELL_SECONDS)


def _answer(door: socket.socket, answer: bytes) -> None:
    while True:
        with suppress(OSError), door.accept()[0] as connection:  # it may go away before its answer
            connection.sendall(answer)


def _ask(where: TrackerRendezvous) -> int | None:
    """The tracker's port in this attempt; None where nobody says it."""
    try:
        with socket.create_connection((where.host, where.port), timeout=_ASK_SECONDS) as connection:
            return int(connection.makefile().readline(8))
    except (OSError, ValueError):  # ValueError: somebody else answers at an address that was used before
        return None


def meet(
    where: TrackerRendezvous, place: Place, lifecycle: Lifecycle, tracker: Tracker | None,
    leave: Callable[[LostWorkersError], object],
) -> Workers:
    """Meet the other workers.

    Args:
        leave: Ends this rank with an error, from a thread: called where the main one waits for a lost worker and would forever.

    Raises :class:`TrackerNotThereError`, and :class:`LostWorkersError` where a worker is lost on the way.
    """
    if place.world_size == 1:
        return Alone()
    _leave_as_documented()
    # Others may still read their data, and rank 0 may be saving while the rest wait for it.
    seconds = max(MIN_COLLECTIVE_SECONDS, lifecycle.peer_wait_seconds, 4 * lifecycle.save_seconds)
    deadline = time.monotonic() + lifecycle.peer_wait_seconds
    with lost_workers():
        while (port := _ask(where)) is None or not _join(where.host, port, f"{place.rank:06}", int(seconds)):
            if time.monotonic() > deadline:
                raise TrackerNotThereError(
                    f"no tracker at {where.host} port {where.port} within {lifecycle.peer_wait_seconds:g} s: the pod with index "
                    "0 runs it; look at that pod, and whether its name resolves in this one"
                )
            time.sleep(_PAUSE_SECONDS)
    return TrackerGroup(tracker, EventLoopWatch(lambda: leave(LostWorkersError(_UNANSWERED))))


def _join(host: str, port: int, name: str, seconds: int) -> bool:
    """Whether the tracker was there.

    One try at a time, without XGBoost's own retries: after a refused connection they go on with the same socket, which the kernel
    aborts each time (seen with 3.2; src/collective/socket.cc, Connect).
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*Failed to connect")
            collective.init(
                dmlc_communicator="rabit", dmlc_tracker_uri=host, dmlc_tracker_port=port, dmlc_task_id=name, dmlc_retry=0,
                dmlc_timeout=seconds,
            )
    except XGBoostError as error:
        if any(phrase in str(error) for phrase in _NO_TRACKER):
            return False
        raise
    return True


class TrackerGroup:
    """All workers, after :func:`meet`."""

    def __init__(self, tracker: Tracker | None, watch: EventLoopWatch) -> None:
        self._tracker, self._watch = tracker, watch

    def broadcast(self, value: T) -> T:
        with lost_workers():
            received: tuple[T] = collective.broadcast((value,), 0)
            return received[0]

    def gather(self, value: T) -> list[T]:
        with lost_workers():
            sent = [collective.broadcast((value,), rank)[0] for rank in range(collective.get_world_size())]
            return sent if collective.get_rank() == 0 else []

    def reduce_sums(self, values: Sequence[float]) -> list[float]:
        return [float(value) for value in self.reduce_array(np.array(values, dtype=np.float64))]

    def reduce_array(self, values: Array) -> Array:
        with lost_workers():
            summed: Array = collective.allreduce(values, collective.Op.SUM)
        return summed

    def close(self) -> None:
        self._watch.close()
        with lost_workers():
            collective.finalize()
        if self._tracker is not None:
            self._tracker.close()


Workers: TypeAlias = TrackerGroup | Alone
"""The group of a boosting run."""


@contextmanager
def lost_workers() -> Iterator[None]:
    """Turn what XGBoost says of a broken collective into a :class:`LostWorkersError`."""
    try:
        yield
    except XGBoostError as error:
        # Its message is a list of what failed in what, each line with a file of src/collective.
        if "/collective/" not in str(error):
            raise
        reasons = [line.strip("- ") for line in str(error).splitlines() if line.startswith("- ")]
        raise LostWorkersError(f"another worker is gone: {reasons[-1] if reasons else 'the collective failed'}") from error


_callbacks: list[Any] = []
"""What C calls must stay alive."""


def _leave_as_documented() -> None:
    """Make the exit code right where XGBoost ends the process by itself.

    When a worker tells the tracker that it failed, the tracker tells the others, and a thread of theirs calls ``exit(-1)``
    (src/collective/comm.cc, RabitComm::Bootstrap). That is a lost peer, and would look like an unknown failure.
    """
    if _callbacks:
        return
    leave = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: os._exit(ExitCode.PEER_LOST))
    _callbacks.append(leave)
    ctypes.CDLL(None)["__cxa_atexit"](leave, None, None)  # `atexit` itself is linked statically
