"""A rank's end of the line to its supervisor: one JSON object a line over an inherited socket.

The standard library alone, in words of Python 3.9: it runs in ranks of our trainer and in anybody's script. What messages hold
stands in :mod:`rank.messages`, by whose models the supervisor reads them.
"""

from __future__ import annotations

import faulthandler
import json
import math
import os
import signal
import socket
import stat
import threading

from trainwright_trainer.run.progress import Hold, Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    from trainwright_trainer.contract.metrics import Phase
    from trainwright_trainer.run.progress import Action

LINK_FD_ENV = "TRAINWRIGHT_LINK_FD"
"""Environment variable with the file descriptor of the rank's end of the socket."""
AGREEMENT_ENV = "TRAINWRIGHT_AGREEMENT"
"""Environment variable that is ``collective`` where a run's ranks agree among themselves, because nothing connects its pods."""
MEETING_ENV = "TRAINWRIGHT_MEETING"
"""Environment variable with what :mod:`torch_rendezvous` tells torch's handler, as JSON."""
STACKS_FD_ENV = "TRAINWRIGHT_STACKS_FD"
"""Environment variable with the file descriptor that a rank writes its stacks to, when it gets ``SIGUSR2``."""
STACKS_SIGNAL = signal.SIGUSR2
"""Free in torch, NCCL and Open MPI; mpirun forwards it as it forwards SIGUSR1."""
MAIN_THREAD = "main thread"
_RECEIVE_BYTES = 65536
BEAT_SECONDS = 1.0
_INTERNAL = 200
"""The exit code of an unexpected error."""


def inherited_socket(environment: Mapping[str, str]) -> socket.socket | None:
    """The rank's end, if this process has it: a program that a script starts reads the same variables, and a launcher of its own
    has closed the descriptor, or opened another file there.
    """
    try:
        number = int(environment.get(LINK_FD_ENV, ""))
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return None
        connection = socket.socket(fileno=number)
    except (ValueError, OSError):
        return None
    if connection.family != socket.AF_UNIX or connection.getsockname():
        connection.detach()  # somebody else's
        return None
    connection.set_inheritable(False)  # a child of this rank must not keep the line open after it
    return connection


def offer_stacks(environment: Mapping[str, str]) -> None:
    """From now on the signal writes stacks to the supervisor's file, if there is one. Call in the main thread.

    ``faulthandler`` writes from the signal handler itself, in C: it needs no Python bytecode to run, so a thread inside a
    collective or a read is shown too.
    """
    descriptor = environment.get(STACKS_FD_ENV)
    if descriptor is None:
        return
    number = int(descriptor)
    os.set_inheritable(number, False)
    os.write(number, f"{MAIN_THREAD} 0x{threading.get_ident():016x}\n".encode())
    faulthandler.register(STACKS_SIGNAL, file=number, all_threads=True)


def leave_at_once() -> NoReturn:
    """End this process without clean-up: nobody is left to report to, and a collective may hold the main thread forever."""
    os._exit(_INTERNAL)


class BareLink:
    """While the main thread computes, one thread answers and one gives signs of life. Calls may come from the main thread only.

    Args:
        connection: The rank's end of the socket pair.
        on_lost: Called in one of the threads when the supervisor is gone.
        beat_seconds: Between two signs of life.
        news: Values for ``/metrics`` since it was last asked, in the thread of the signs of life.
    """

    def __init__(
        self, connection: socket.socket, on_lost: Callable[[], object] = leave_at_once, beat_seconds: float = BEAT_SECONDS,
        news: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._connection = connection
        self._on_lost, self._beat_seconds, self._news = on_lost, beat_seconds, news
        self.progress = Progress()
        self._ended = threading.Event()
        self._hold = Hold()
        self._changed = threading.Condition()
        self._answers: dict[int, Any] = {}
        threading.Thread(target=self._listen, name="supervisor-link", daemon=True).start()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def boundary(self, tick: int) -> Action | None:
        """Call before each tick, on every rank. Waits while an agreement is under way; gives what to do before the tick."""
        with self._changed:
            self._changed.wait_for(lambda: not self._hold.held)
            self._enter(tick)
            return self._hold.enter(tick)

    def _enter(self, tick: int) -> None:
        self.progress.tick(tick)

    def phase(self, phase: Phase, step: int | None = None) -> None:
        """Say what this rank is doing now."""
        self.progress.phase(phase)
        self.say({"type": "phase", "phase": phase, "step": step})

    def mark(self) -> None:
        """Say that the main thread goes on, at the same places on all ranks: before whatever waits for another rank."""
        self.progress.mark()

    def measured(self, values: Mapping[str, float]) -> None:
        """Values for ``/metrics``, by name in the contract's table."""
        self.say({"type": "measured", "values": {name: _as_json(value) for name, value in values.items()}})

    def committed(self, step: int, seconds: float) -> None:
        """Say which step is safe: after a save, or (with 0 seconds) after a restore."""
        self.say({"type": "committed", "step": step, "seconds": seconds})

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Say something that has a ``request`` number, and wait for the answer to it."""
        self.say(message)
        with self._changed:
            self._changed.wait_for(lambda: message["request"] in self._answers)
            answer: dict[str, Any] = self._answers.pop(message["request"])
            return answer

    def end(self, message: Mapping[str, Any]) -> None:
        """Say how this rank ends. The last message."""
        with self._changed:
            if not self._ended.is_set():
                self._ended.set()
                self._say_locked(message)

    def say(self, message: Mapping[str, Any]) -> None:
        with self._changed:
            self._say_locked(message)

    def beat(self) -> None:
        """Give a sign of life now."""
        with self._changed:
            if not self._ended.is_set():
                self._say_locked(self.progress.beat())

    def _beat(self) -> None:
        while not self._ended.wait(self._beat_seconds):
            news = self._news()
            if news and not self._ended.is_set():
                self.measured(news)
            self.beat()

    def _say_locked(self, message: Mapping[str, Any]) -> None:
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._on_lost()

    def _listen(self) -> None:
        pending = b""
        while True:
            received = self._receive()
            if not received:
                break
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                self._take(line)
        self._on_lost()

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(_RECEIVE_BYTES)
        except OSError:
            return b""

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            kind = message["type"]
        except (ValueError, TypeError, KeyError):
            return  # nothing that this rank could obey
        with self._changed:
            if kind == "pause":
                # The answer leaves under the lock, so that no boundary is passed between the look and the answer.
                request = message["request"]
                self._say_locked({"type": "at", "request": request, "tick": self._hold.where(request)})
            elif kind == "act":
                self._hold.act(message["request"], message["action"], message["tick"])
            elif kind == "carry":
                self._hold.carry(message["request"])
            elif kind == "ask":
                self._asked(message["action"])
            elif kind == "given":
                self._answers[message["request"]] = message
            self._changed.notify_all()

    def _asked(self, action: Action) -> None:
        """A wish of this pod alone. Ranks of connected pods hear an ``Act`` instead, so there is nothing to do here."""


def _as_json(value: float) -> float | str:
    """Numbers that JSON does not know are text, as the contract's reports have them."""
    return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
