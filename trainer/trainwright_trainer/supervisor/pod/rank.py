"""One rank as its supervisor sees it, wherever its process runs."""

from __future__ import annotations

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from trainwright_trainer.rank.messages import (
    Act,
    Ask,
    Beat,
    Carry,
    Committed,
    FromRankMessage,
    Measured,
    Phase,
    PhaseChanged,
    Result,
    Where,
)
from trainwright_trainer.supervisor.pod.outcome import RankOutcome

OnWord = Callable[["Rank", FromRankMessage], None]


class Stacks(Protocol):
    """The stacks of a rank's threads, which it writes when it gets ``SIGUSR2``."""

    def read(self) -> str:
        """All that was written, as far as it is known here."""


class Rank(ABC):
    """What a rank has said, and how to reach it."""

    stacks: Stacks

    def __init__(self, number: int, on_word: OnWord) -> None:
        self.number = number
        """Its rank in the whole run."""
        self.phase: Phase = "starting"
        self.step: int | None = None
        self.committed_step: int | None = None
        self.result: Result | None = None
        self.outcome: RankOutcome | None = None
        """How it ended by itself; None while it runs, and for good if the supervisor killed it first."""
        self.alive = False
        self.killed = False
        self.beat: Beat | None = None
        """Its last sign of life."""
        self.beat_at = self.progressed_at = 0.0
        """On the loop's clock, when that came, and when its main thread last went on as far as is known."""
        self._on_word = on_word

    @property
    def pid(self) -> int | None:
        """Of its process, where that is a child of this supervisor."""
        return None

    @abstractmethod
    def say(self, message: Where | Act | Carry | Ask) -> None:
        """Send it a message, without waiting for it."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """To the rank itself, not its helpers: what it does with them is its own business."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL to the rank and its helpers; what it has said until now still counts."""

    def hear(self, message: FromRankMessage) -> None:
        """Note what it says and hand it on."""
        now = asyncio.get_running_loop().time()
        match message:
            case Beat():
                self.beat, self.beat_at, self.progressed_at = message, now, now - message.idle_seconds
            case PhaseChanged(phase=phase, step=step):
                self.phase, self.progressed_at = phase, now
                self.step = self.step if step is None else step
            case Measured(values={"trainwright_step": step}):
                self.step = int(step)
            case Committed(step=step):
                self.committed_step = step
            case Result(step=step):
                self.result = message
                self.step = self.step if step is None else step
        self._on_word(self, message)
