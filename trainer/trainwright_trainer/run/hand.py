"""This process's part in a run: what it says of its steps, and what it is told. One for each process."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time

from trainwright_trainer.run.launched import world
from trainwright_trainer.run.link import AGREEMENT_ENV, BareLink, inherited_socket, offer_stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

    from trainwright_trainer.contract.metrics import Phase

PREEMPTED_SAVED, PREEMPTED_NOT_SAVED = 210, 211
"""Two of the exit codes of the contract."""
NEWS_SECONDS = 1.0
"""Between two looks at a loss: one on a GPU is waited for."""
PACE_SECONDS, PACE_STEPS = 10.0, 5
"""Over which a rank's pace is averaged, at the least: less says more of garbage collectors than of ranks."""


class HandLink(BareLink):
    """A step ends where the script says so, and a boundary is where it asks whether to stop."""

    def _enter(self, tick: int) -> None:
        self.progress.reach(tick)

    def forget(self) -> None:
        """In a child of this process, which has none of its threads."""
        self._connection.close()


class Hand:
    """Opened at the first call of anything that speaks to the supervisor."""

    def __init__(self) -> None:
        connection = inherited_socket(os.environ)
        self.link = None if connection is None else HandLink(connection, news=self._news)
        self.at_step: int | None = None
        """The last one that was done."""
        self.stopping = False
        self.committed: int | None = None
        """Step of the newest checkpoint of this process."""
        self.world = world(os.environ)
        self._by_collective = os.environ.get(AGREEMENT_ENV) == "collective"
        self._boundaries = 0
        self._phase: Phase = "starting"
        self._due = 0.0
        self._latest: dict[str, Any] = {}
        self._told: dict[str, Any] = {}
        self.waited = 0.0
        """Seconds for other ranks since the pace was told last."""
        self.clocks: list[Callable[[], float]] = []
        """Of others who count such seconds: what came since they were asked last."""
        self._paced: tuple[int, float] | None = None
        if self.link is not None:
            if threading.current_thread() is threading.main_thread():
                offer_stacks(os.environ)
            self.link.beat()  # from now on the supervisor knows that this rank speaks
            atexit.register(self._at_exit)

    def step(self, number: int, values: dict[str, Any]) -> None:
        """A step is done. ``values`` are numbers by metric, without what all their names begin with."""
        again, self.at_step = number == self.at_step, number
        if self.link is None:
            return
        cut = self._phase != "training"
        if cut:
            self.phase("training")
        self.link.mark()
        if again:  # more is known of it
            values = {**self._latest, **values}
        else:
            self.link.progress.lap()
        now = time.monotonic()
        if now >= self._due:
            self._due = now + NEWS_SECONDS
            values = {name: _number(value) for name, value in values.items()}
        else:  # what is on a device stays there, and is told as it was when last looked at
            values = {
                name: value if isinstance(value, (int, float)) else self._latest[name]
                for name, value in values.items() if isinstance(value, (int, float)) or name in self._latest
            }
        self._pace(number, now, cut)
        values["step"], values["at"] = number, now
        if not self._told:
            self._told = values  # what happened before the first step is no part of any
        self._latest = values

    def _pace(self, number: int, now: float, cut: bool) -> None:
        """Tell what steps went into. Who never waited, or waits where nobody looks, is not compared.

        Args:
            cut: Whether something else was done since the step before, so that the time between them is no step's.
        """
        if self._paced is None:
            self._paced = number, now
            self._waits()  # those before were no step's
        if cut and self._latest:
            self._paced = self._paced[0] + number - self._latest["step"], self._paced[1] + now - self._latest["at"]
        steps, seconds = number - self._paced[0], now - self._paced[1]
        if self.link is None or steps < PACE_STEPS or seconds < PACE_SECONDS:
            return
        waited = min(seconds, self._waits())
        if waited > 0:
            each = {"step_seconds": seconds / steps, "waited_seconds": waited / steps}
            self.link.say({"type": "pace", "step": number, "split": each})
        self._paced = number, now

    def _waits(self) -> float:
        """Seconds since this was asked last."""
        waited, self.waited = self.waited + sum(clock() for clock in self.clocks), 0.0
        return waited

    def wait_is_over(self, seconds: float) -> None:
        """It was for other ranks. Those outside of steps, for an evaluation for example, do not count."""
        if self._phase == "training":
            self.waited += seconds

    def should_stop(self) -> bool:
        """At a boundary that all ranks pass in the same order."""
        if self.link is None:
            if self._boundaries == 0 and self.world.size == 1:
                self._listen()
        elif not self._by_collective:
            action = self.link.boundary(self._boundaries)
            if self._boundaries == 0:
                self.link.beat()  # from now on the supervisor asks instead of sending SIGTERM
            self.stopping = self.stopping or action == "stop"
        self._boundaries += 1
        return self.stopping

    def stopped(self, saved: bool) -> NoReturn:
        """End this process with the code of a run that was told to end."""
        code = PREEMPTED_SAVED if saved else PREEMPTED_NOT_SAVED
        self._end(code)
        sys.exit(code)

    def phase(self, phase: Phase) -> None:
        """What the main thread does from now on; a step that is done is training again."""
        if self.link is not None:
            if phase != self._phase:
                self.link.phase(phase, self.at_step)
            self.link.mark()
        self._phase = phase

    def _listen(self) -> None:
        """No supervisor, and no other rank: obey the signals. The second one ends the process as if nobody had listened."""

        def on_signal(number: int, frame: FrameType | None) -> None:
            self.stopping = True
            signal.signal(number, before[number])

        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.getsignal(number)
                signal.signal(number, on_signal)

    def _news(self) -> dict[str, float]:
        """In the thread of the signs of life: what the node's first rank measured since it was last asked."""
        latest, told = self._latest, self._told
        if not latest or latest is told or self.world.local_rank != 0:
            return {}
        self._told = latest
        found = {f"trainwright_{name}": value for name, value in latest.items() if name != "at"}
        found["trainwright_last_step_timestamp_seconds"] = time.time() - (time.monotonic() - latest["at"])
        steps, seconds = latest["step"] - told["step"], latest["at"] - told["at"]
        if steps > 0:
            found["trainwright_step_seconds"] = seconds / steps
        if seconds > 0 and "samples" in latest and "samples" in told:
            found["trainwright_samples_per_second"] = (latest["samples"] - told["samples"]) / seconds
        return found

    def flush(self) -> None:
        """Tell what the next sign of life would."""
        news = self._news()
        if self.link is not None and news:
            self.link.measured(news)

    def _at_exit(self) -> None:
        """A process that was told to stop, and ends without a word, has not come to the end of its work."""
        if self.stopping:
            self._end(PREEMPTED_SAVED if self.committed == self.at_step is not None else PREEMPTED_NOT_SAVED)
        else:
            self.flush()

    def _end(self, code: int) -> None:
        if self.link is not None:
            self.flush()
            rank = self.world.rank
            cause = {"rank": rank, "kind": "Preempted", "message": f"rank {rank} stopped, as it was told, at step {self.at_step}"}
            self.link.end({"type": "result", "code": code, "cause": cause, "step": self.at_step})


class Waiting:
    """What :func:`run.waiting` gives."""

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *raised: object) -> None:
        hand().wait_is_over(time.monotonic() - self._began)


def _number(value: Any) -> float:
    """A number, or a tensor with one. Raises ``TypeError`` or ``ValueError`` for anything else, in the script's own line."""
    return value if isinstance(value, (int, float)) else float(value)


_hand: Hand | None = None


def hand() -> Hand:
    """This process's own."""
    global _hand
    if _hand is None:
        _hand = Hand()
    return _hand


def _forget() -> None:
    """In a forked child, a worker of a loader for example: it has no part in the run."""
    global _hand
    if _hand is not None and _hand.link is not None:
        _hand.link.forget()
        atexit.unregister(_hand._at_exit)
        _hand.link = None
    os.environ.pop("TRAINWRIGHT_LINK_FD", None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
