"""A rank's end of the line to its supervisor, and the same interface for a rank that runs without one."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import NoReturn, Protocol

from pydantic import ValidationError

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.termination import Cause
from trainwright_trainer.lifecycle.hold import Hold
from trainwright_trainer.lifecycle.messages import (
    LINK_FD_ENV,
    TO_RANK,
    Act,
    Action,
    At,
    Carry,
    Committed,
    Measured,
    Phase,
    PhaseChanged,
    Result,
    Where,
)

_RECEIVE_BYTES = 65536


class Link(Protocol):
    """What the loop says and asks. Every call may come from the main thread only."""

    @property
    def asked_at(self) -> float | None:
        """``time.monotonic()`` when the last request to stop or save came in, the start of the grace period's clock."""

    def boundary(self, tick: int) -> Action | None:
        """Call before each tick, on every rank. Waits while an agreement is under way; gives what to do before the tick."""

    def phase(self, phase: Phase, step: int | None = None) -> None:
        """Say what this rank is doing now."""

    def measured(self, values: Mapping[str, float]) -> None:
        """Values for ``/metrics``, by name in the contract's table."""

    def committed(self, step: int, seconds: float) -> None:
        """Say which step is safe: after a save, or (with 0 seconds) after a restore."""

    def result(self, code: ExitCode, cause: Cause | None = None, step: int | None = None) -> None:
        """The last word."""


def open_link(environment: Mapping[str, str]) -> Link:
    """The supervisor's line if there is one, otherwise :class:`SoloLink`. Call in the main thread, before slow imports."""
    descriptor = environment.get(LINK_FD_ENV)
    if descriptor is None:
        return SoloLink(alone=environment.get("WORLD_SIZE", "1") == "1")
    # The pod's SIGTERM reaches the supervisor, which agrees with all ranks first. One that reaches the whole process group must
    # not end a rank in the middle of a step.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection = socket.socket(fileno=int(descriptor))
    connection.set_inheritable(False)  # a child of this rank must not keep the line open after it
    return SupervisorLink(connection)


def leave_at_once() -> NoReturn:
    """End this process without clean-up: nobody is left to report to, and a collective may hold the main thread for ever."""
    os._exit(ExitCode.INTERNAL)


class SupervisorLink:
    """The line over an inherited socket. A listener thread answers while the main thread computes.

    Args:
        connection: The rank's end of the socket pair.
        on_lost: Called in the listener thread when the supervisor is gone.
    """

    def __init__(self, connection: socket.socket, on_lost: Callable[[], object] = leave_at_once) -> None:
        self._connection = connection
        self._on_lost = on_lost
        self._hold = Hold()
        self._changed = threading.Condition()
        self._asked_at: float | None = None
        threading.Thread(target=self._listen, name="supervisor-link", daemon=True).start()

    @property
    def asked_at(self) -> float | None:
        with self._changed:
            return self._asked_at

    def boundary(self, tick: int) -> Action | None:
        with self._changed:
            self._changed.wait_for(lambda: not self._hold.held)
            return self._hold.enter(tick)

    def phase(self, phase: Phase, step: int | None = None) -> None:
        self._send(PhaseChanged(phase=phase, step=step))

    def measured(self, values: Mapping[str, float]) -> None:
        self._send(Measured(values=dict(values)))

    def committed(self, step: int, seconds: float) -> None:
        self._send(Committed(step=step, seconds=seconds))

    def result(self, code: ExitCode, cause: Cause | None = None, step: int | None = None) -> None:
        self._send(Result(code=code, cause=cause, step=step))

    def _send(self, message: PhaseChanged | Measured | Committed | At | Result) -> None:
        with self._changed:
            self._send_locked(message)

    def _send_locked(self, message: PhaseChanged | Measured | Committed | At | Result) -> None:
        try:
            self._connection.sendall(message.model_dump_json().encode() + b"\n")
        except OSError:
            self._on_lost()

    def _listen(self) -> None:
        pending = b""
        while received := self._receive():
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
            message = TO_RANK.validate_json(line)
        except ValidationError:
            return  # a newer supervisor's message: nothing that this rank could obey
        with self._changed:
            match message:
                case Where(request=request):
                    self._asked_at = time.monotonic()
                    # The answer leaves under the lock, so that no boundary is passed between the look and the answer.
                    self._send_locked(At(request=request, tick=self._hold.where(request)))
                case Act(request=request, action=action, tick=tick):
                    self._hold.act(request, action, tick)
                case Carry(request=request):
                    self._hold.carry(request)
            self._changed.notify_all()


class SoloLink:
    """No supervisor: a rank run by hand. It obeys SIGTERM and SIGINT itself.

    One rank stops at the next boundary and saves. Of several ranks each would stop at a boundary of its own, and to agree is the
    supervisor's part, so they end at once and unsaved.
    """

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self._asked_at: float | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    @property
    def asked_at(self) -> float | None:
        return self._asked_at

    def boundary(self, tick: int) -> Action | None:
        return "stop" if self._asked_at is not None else None

    def phase(self, phase: Phase, step: int | None = None) -> None:
        pass

    def measured(self, values: Mapping[str, float]) -> None:
        pass

    def committed(self, step: int, seconds: float) -> None:
        pass

    def result(self, code: ExitCode, cause: Cause | None = None, step: int | None = None) -> None:
        pass

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._alone:
            os._exit(ExitCode.PREEMPTED_NOT_SAVED)
        self._asked_at = time.monotonic()
