"""A rank's end of the line to its supervisor, and the same interface for a rank that runs without one."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Protocol

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.metrics import Phase, StepSplit
from trainwright_trainer.rank.messages import Action, Pace, Result
from trainwright_trainer.run.link import AGREEMENT_ENV, BEAT_SECONDS, BareLink, inherited_socket, leave_at_once, offer_stacks

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
    connection = inherited_socket(environment)
    if connection is None:
        return SoloLink(alone=environment.get("WORLD_SIZE", "1") == "1")
    offer_stacks(environment)
    # The pod's SIGTERM reaches the supervisor, which agrees with all ranks first. One that reaches the whole process group must
    # not end a rank in the middle of a step.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if environment.get(AGREEMENT_ENV) == "collective":
        return CollectiveLink(connection)
    return SupervisorLink(connection)


class SupervisorLink(BareLink):
    """The line over an inherited socket. Takes the same arguments as its base."""

    def agree_through(self, reduce_sums: Callable[[Sequence[float]], list[float]]) -> None:
        pass

    def pace(self, step: int, split: StepSplit) -> None:
        self.say(Pace(step=step, split=split).model_dump(mode="json"))

    def result(self, code: ExitCode, cause: Cause | None = None, step: int | None = None) -> None:
        self.end(Result(code=code, cause=cause, step=step).model_dump(mode="json"))


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
