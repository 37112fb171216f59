"""A rank's end of the line to its supervisor, and the same interface for a rank that runs without one."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import NoReturn, Protocol

from pydantic import ValidationError

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.metrics import Phase, StepSplit
from trainwright_trainer.observe.stacks import offer_stacks
from trainwright_trainer.rank.messages import (
    AGREEMENT_ENV,
    LINK_FD_ENV,
    TO_RANK,
    Act,
    Action,
    Ask,
    At,
    Carry,
    Committed,
    FromRankMessage,
    Measured,
    Pace,
    Pause,
    PhaseChanged,
    Result,
)
from trainwright_trainer.rank.progress import Hold, Progress

_RECEIVE_BYTES = 65536
BEAT_SECONDS = 1.0
_ACTIONS: tuple[Action, ...] = ("stop", "save")
"""The first that anybody wants is done: who stops saves too."""


class Link(Protocol):
    """What the loop says and asks. Every call may come from the main thread only."""

    def boundary(self, tick: int) -> Action | None:
        """Call before each tick, on every rank. Waits while an agreement is under way; gives what to do before the tick."""

    def agree_through(self, reduce_sums: Callable[[Sequence[float]], list[float]]) -> None:
        """Give a way to add numbers up over all ranks, before the first boundary. Used where nothing connects a run's pods."""

    def phase(self, phase: Phase, step: int | None = None) -> None:
        """Say what this rank is doing now."""

    def mark(self) -> None:
        """Say that the main thread goes on, at the same places on all ranks: before whatever waits for another rank."""

    def pace(self, step: int, split: StepSplit) -> None:
        """What the time of a step goes into; the slow ranks are found by it."""

    def measured(self, values: Mapping[str, float]) -> None:
        """Values for ``/metrics``, by name in the contract's table."""

    def committed(self, step: int, seconds: float) -> None:
        """Say which step is safe: after a save, or (with 0 seconds) after a restore."""

    def result(self, code: ExitCode, cause: Cause | None = None, step: int | None = None) -> None:
        """Report how this rank ends. The last message."""


def open_link(environment: Mapping[str, str]) -> Link:
    """The supervisor's line if there is one, otherwise :class:`SoloLink`. Call in the main thread, before slow imports."""
    descriptor = environment.get(LINK_FD_ENV)
    if descriptor is None:
        return SoloLink(alone=environment.get("WORLD_SIZE", "1") == "1")
    offer_stacks(environment)
    # The pod's SIGTERM reaches the supervisor, which agrees with all ranks first. One that reaches the whole process group must
    # not end a rank in the middle of a step.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection = socket.socket(fileno=int(descriptor))
    connection.set_inheritable(False)  # a child of this rank must not keep the line open after it
    if environment.get(AGREEMENT_ENV) == "collective":

        return CollectiveLink(connection)
    return SupervisorLink(connection)


def leave_at_once() -> NoReturn:
    """End this process without clean-up: nobody is left to report to, and a collective may hold the main thread forever."""
    os._exit(ExitCode.INTERNAL)


class SupervisorLink:
    """The line over an inherited socket. While the main thread computes, one thread answers and one gives signs of life.

    Args:
        connection: The rank's end of the socket pair.
        on_lost: Called in one of the threads when the supervisor is gone.
        beat_seconds: Between two signs of life.
    """

    def __init__(
        self, connection: socket.socket, on_lost: Callable[[], object] = leave_at_once, beat_seconds: float = BEAT_SECONDS
    ) -> None:
        self._connection = connection
        self._on_lost = on_lost
        self._beat_seconds = beat_seconds
        self._progress = Progress()
        self._ended = threading.Event()
        self._hold = Hold()
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, name="supervisor-link", daemon=True).start()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def boundary(self, tick: int) -> Action | None:
        with self._changed:
            self._changed.wait_for(lambda: not self._hold.held)
            self._progress.tick(tick)
            return self._hold.enter(tick)

    def phase(self, phase: Phase, step: int | None = None) -> None:
        self._progress.phase(phase)
        self._send(PhaseChanged(phase=phase, step=step))

    def agree_through(self, reduce_sums: Callable[[Sequence[float]], list[float]]) -> None:
        pass

    def mark(self) -> None:
        self._progress.mark()

    def pace(self, step: int, split: StepSplit) -> None:
        self._send(Pace(step=step, split=split))

    def measured(self, values: Mapping[str, float]) -> None:
        self._send(Measured(values=dict(values)))

    def committed(self, step: int, seconds: float) -> None:
        self._send(Committed(step=step, seconds=seconds))

    def result(self, code: ExitCode, cause: Cause | None = None, step: int | None = None) -> None:
        with self._changed:
            self._ended.set()  # it stays the last message
            self._send_locked(Result(code=code, cause=cause, step=step))

    def _send(self, message: FromRankMessage) -> None:
        with self._changed:
            self._send_locked(message)

    def _beat(self) -> None:
        while not self._ended.wait(self._beat_seconds):
            with self._changed:
                if not self._ended.is_set():
                    self._send_locked(self._progress.beat())

    def _send_locked(self, message: FromRankMessage) -> None:
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
                case Pause(request=request):
                    # The answer leaves under the lock, so that no boundary is passed between the look and the answer.
                    self._send_locked(At(request=request, tick=self._hold.where(request)))
                case Act(request=request, action=action, tick=tick):
                    self._hold.act(request, action, tick)
                case Carry(request=request):
                    self._hold.carry(request)
                case Ask(action=action):
                    self._asked(action)
            self._changed.notify_all()

    def _asked(self, action: Action) -> None:
        """A wish of this pod alone. Ranks of connected pods hear an :class:`Act` instead, so there is nothing to do here."""


class CollectiveLink(SupervisorLink):
    """Takes the same arguments as its base. A rank that is alone needs no :meth:`agree_through`."""

    def __init__(
        self, connection: socket.socket, on_lost: Callable[[], object] = leave_at_once, beat_seconds: float = BEAT_SECONDS
    ) -> None:
        self._wished: set[Action] = set()
        self._reduce: Callable[[Sequence[float]], list[float]] | None = None
        super().__init__(connection, on_lost, beat_seconds)  # last: its threads use what stands above

    def agree_through(self, reduce_sums: Callable[[Sequence[float]], list[float]]) -> None:
        self._reduce = reduce_sums

    def boundary(self, tick: int) -> Action | None:
        super().boundary(tick)
        with self._changed:
            wishes = [float(action in self._wished) for action in _ACTIONS]
        sums = wishes if self._reduce is None else self._reduce(wishes)
        for action, wanted in zip(_ACTIONS, sums, strict=True):
            if wanted:
                with self._changed:
                    self._wished -= {action, "save"}
                return action
        return None

    def _asked(self, action: Action) -> None:
        self._wished.add(action)


class SoloLink:
    """No supervisor: a rank run by hand. It obeys SIGTERM and SIGINT itself.

    One rank stops at the next boundary and saves. Of several ranks each would stop at a boundary of its own, and to agree is the
    supervisor's part, so they end at once and unsaved.
    """

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self._told_to_end = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def boundary(self, tick: int) -> Action | None:
        return "stop" if self._told_to_end else None

    def phase(self, phase: Phase, step: int | None = None) -> None:
        pass

    def agree_through(self, reduce_sums: Callable[[Sequence[float]], list[float]]) -> None:
        pass

    def mark(self) -> None:
        pass

    def pace(self, step: int, split: StepSplit) -> None:
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
        self._told_to_end = True
