"""What a rank that a launcher started on another machine says to its supervisor beside what every rank says, and hears from it.

One JSON object a line over TCP: the rank's program dials the launcher's supervisor, which told it where through its environment.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from trainwright_trainer.contract.base import Contract, Index
from trainwright_trainer.rank.messages import (
    Act,
    Ask,
    At,
    Carry,
    Committed,
    Heartbeat,
    Measured,
    Pace,
    PhaseChanged,
    Result,
    Where,
)

DIAL_ENV = "TRAINWRIGHT_DIAL"
"""Environment variable of a rank that a launcher started: ``TOKEN/HOST/PORT`` of its supervisor."""


class Hello(Contract):
    """The first word."""

    type: Literal["hello"] = "hello"
    token: str
    """Of this attempt: a rank of the one before must not take part."""
    rank: Index
    size: Index
    """Of the world, as the launcher numbered it."""
    local_rank: Index | None
    host: str


class Welcome(Contract):
    """The answer: start."""

    type: Literal["welcome"] = "welcome"
    environment: dict[str, str]


class Exited(Contract):
    """The last word, of the rank's parent: its exit status, negative for a signal."""

    type: Literal["exited"] = "exited"
    status: int


class ToldToEnd(Contract):
    """The rank's own pod is told to end."""

    type: Literal["told_to_end"] = "told_to_end"
    host: str


class StacksWritten(Contract):
    """The stacks of the rank's threads, after ``SIGUSR2``."""

    type: Literal["stacks_written"] = "stacks_written"
    text: str


class SendSignal(Contract):
    """Give the rank this signal."""

    type: Literal["send_signal"] = "send_signal"
    number: int


FromAfarMessage = (
    Hello | Exited | ToldToEnd | StacksWritten | PhaseChanged | Measured | Committed | Heartbeat | Pace | At | Result
)
FROM_AFAR: TypeAdapter[FromAfarMessage] = TypeAdapter(Annotated[FromAfarMessage, Field(discriminator="type")])
ToAfarMessage = Welcome | SendSignal | Where | Act | Carry | Ask
