"""Messages between a rank and its supervisor: one JSON object a line over an inherited socket.

A *tick* is one unit of work that every rank does in the same order: an optimizer step or an evaluation batch. Ticks are how
all ranks agree to stop or save at the same place without a collective: the supervisor asks every rank where it is, a rank's
listener thread answers at once with the tick its main thread is in and from then on holds the main thread at the next boundary,
node 0 takes the highest answer, and everyone acts at the boundary after it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from trainwright_trainer.contract.base import Contract, Report
from trainwright_trainer.contract.exit_codes import Cause
from trainwright_trainer.contract.metrics import Phase, StepSplit

ATTEMPT_ENV = "TRAINWRIGHT_ATTEMPT"
"""Environment variable with the attempt's nonce, the same in all pods."""
RESUME_BEFORE_ENV = "TRAINWRIGHT_RESUME_BEFORE"
"""Environment variable of an attempt that begins with a commit of a step before this one, if there is one that verifies."""
TEMPLATE_READY = b"ready"
"""What the process that ranks are forked from says when it has imported what takes long."""

Action = Literal["stop", "save"]


class PhaseChanged(Contract):
    type: Literal["phase"] = "phase"
    phase: Phase
    step: int | None = None


class Measured(Report):
    """Values for ``/metrics``, by metric name."""

    type: Literal["measured"] = "measured"
    values: dict[str, float]


class Committed(Report):
    type: Literal["committed"] = "committed"
    step: int
    seconds: float


class Heartbeat(Report):
    """A sign of life, once a second, from a thread of the rank: it comes while the main thread computes, waits or hangs."""

    type: Literal["beat"] = "beat"
    tick: int | None
    """The one that the main thread is in."""
    marks: int
    """How often the main thread has said that it goes on. Ranks make the same calls in the same order, so one that has made fewer
    is behind."""
    idle_seconds: float
    """Since the last of them."""
    tick_seconds: float | None
    """Median of the latest ticks of this phase; None until there are enough of them."""


class Pace(Report):
    """How a rank's steps went."""

    type: Literal["pace"] = "pace"
    step: int
    split: StepSplit


class At(Contract):
    """Answer to :class:`Pause`; no tick before the training loop has begun or after it has ended."""

    type: Literal["at"] = "at"
    request: int
    tick: int | None


class Wanted(Contract):
    """A script's rank waits for :class:`Given`. All ranks want the same, in the same order, and are answered when all asked.

    Where a rank has ended, those that wait for it get an error.
    """

    type: Literal["wanted"] = "wanted"
    request: int
    what: Literal["newest", "draft", "commit"]
    step: int
    differs: str | None = None
    """Between pods: what two ranks of this one want or do instead of the same."""


class Given(Contract):
    """The answer to :class:`Wanted`."""

    type: Literal["given"] = "given"
    request: int
    step: int = 0
    path: str | None = None
    """Of the checkpoint or of the draft; None where there is none."""
    error: str | None = None


class Result(Contract):
    """A rank's last message. A rank that ends without one failed, in the way that its exit status says."""

    type: Literal["result"] = "result"
    code: int
    cause: Cause | None = None
    step: int | None = None


class Pause(Contract):
    """Say which tick you are in, and hold at the next boundary until :class:`Act` or :class:`Carry` comes."""

    type: Literal["pause"] = "pause"
    request: int


class Act(Contract):
    """At the boundary of this tick: save, and for ``stop`` end afterwards."""

    type: Literal["act"] = "act"
    request: int
    action: Action
    tick: int


class Carry(Contract):
    """Nothing was agreed: carry on."""

    type: Literal["carry"] = "carry"
    request: int


class Ask(Contract):
    """This pod wants it. Sent where nothing connects the supervisors of a run: its ranks agree on a boundary among themselves."""

    type: Literal["ask"] = "ask"
    action: Action


FromRankMessage = PhaseChanged | Measured | Committed | Heartbeat | Pace | At | Wanted | Result
FromRank = Annotated[FromRankMessage, Field(discriminator="type")]
ToRankMessage = Pause | Act | Carry | Ask | Given
ToRank = Annotated[ToRankMessage, Field(discriminator="type")]

FROM_RANK: TypeAdapter[FromRankMessage] = TypeAdapter(FromRank)
TO_RANK: TypeAdapter[ToRankMessage] = TypeAdapter(ToRank)
