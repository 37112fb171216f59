"""What supervisors say to each other: one JSON object a line over the control channel between each pod and node 0.

``Pause``, ``Act``, ``Carry``, ``Ask`` and ``Given`` pass through to the ranks as they are.

When a pod of a running attempt is lost, the attempt ends in every other one, and a new one starts with all of them.
:func:`leave_without_peer` is the only place that decides it, for node 0's coordinator and for the pods that lose node 0. A
collective cannot go on without a rank, and NCCL alone would take minutes to say so. In a run that recovers in place
(``lifecycle.recovery``) pods outlive the attempt: each says ``Bye`` when its ranks are gone, and node 0's ``Verdict`` follows
when all have.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from trainwright_trainer.checkpoint.ledger import Past
from trainwright_trainer.contract.base import Contract, Index, Report
from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.metrics import StepSplit
from trainwright_trainer.observe.hang import Dumped, Stuck
from trainwright_trainer.rank.messages import Act, Ask, Carry, Given, Pause, Wanted

Word = Annotated[str, Field(max_length=256)]
"""What a stranger may have sent, and a log repeats."""


class Ping(Contract):
    """Still there. Sent both ways; silence means that the other end is lost."""

    type: Literal["ping"] = "ping"


class Introduction(BaseModel):
    """What two supervisors say before they know each other.

    Later releases may add fields, which earlier ones pass over: so two versions find out that they differ.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Knock(Introduction):
    """A pod's first message: whom it looks for."""

    type: Literal["knock"] = "knock"
    identity: Word
    """Of the run."""
    nonce: Word = ""
    """For node 0's proof; so are those below for the other end's."""


class Challenge(Introduction):
    """Node 0's answer to a pod of its own run; it drops every other."""

    type: Literal["challenge"] = "challenge"
    identity: Word
    attempt: Word
    """That the pod would join."""
    nonce: Word = ""
    proof: Word | None = None
    """That node 0 knows the run's secret, where the run has one (see :mod:`proof`)."""


class Join(Introduction):
    """A pod's second message: it wants to take part in this attempt of this run, as this node."""

    type: Literal["join"] = "join"
    node: Index
    host: Word
    sha256: Word
    """Of the specification file."""
    version: Word
    """Of the trainer."""
    identity: Word
    attempt: Word
    proof: Word | None = None
    """That this pod knows the run's secret."""
    versions: dict[str, str] = {}
    """Of the software that must be the same in every pod, by package."""
    again: bool = False
    """Whether it took part in an attempt before, and waits for pods that were lost."""


class EndRequested(Contract):
    """This pod was told to end: end the run in an orderly way."""

    type: Literal["end_requested"] = "end_requested"
    why: str


class Position(Contract):
    """Where the ranks of a pod are, in answer to ``Pause``."""

    type: Literal["position"] = "position"
    request: int
    tick: int | None = None
    """The highest of its ranks; None if all of them are past their last tick."""
    absent: str | None = None
    """Why a rank of this pod cannot save now, if one cannot."""


class Saved(Contract):
    """A rank reports a commit."""

    type: Literal["saved"] = "saved"
    step: int


class Paces(Report):
    """What the time of a step goes into, by rank."""

    type: Literal["paces"] = "paces"
    step: int
    times: dict[int, StepSplit]


class Times(Report):
    """What the attempt's time has gone into until now, by phases of rank 0."""

    type: Literal["times"] = "times"
    seconds: dict[str, float]
    step: int | None
    """Last step done."""


class Bye(Contract):
    """All ranks of this pod have ended, with this code."""

    type: Literal["bye"] = "bye"
    code: int
    cause: Cause | None = None


class Start(Contract):
    """Everybody is here: start the ranks."""

    type: Literal["start"] = "start"
    attempt: str
    committed_step: int | None
    """Of the newest commit, before this attempt."""
    past: Past = Past()
    """The attempts until now."""
    resume_before: int | None = None
    """Step of the newest commit, where this attempt begins with an earlier one if it can."""


class Terminate(Contract):
    """The run is to end, and why. A script's ranks get SIGTERM; the trainer's own hear in an ``Act`` at which tick."""

    type: Literal["terminate"] = "terminate"
    cause: Cause


class Dump(Contract):
    """The run hangs: write the stacks of your ranks, and say how they stand."""

    type: Literal["dump"] = "dump"


class Leave(Contract):
    """End now, with this code unless a rank of yours failed by itself; it has so long to say so."""

    type: Literal["leave"] = "leave"
    code: int
    cause: Cause
    patience_seconds: float
    again: bool = False
    """Whether a pod that has not begun may join another attempt, where the run recovers in place."""


class Verdict(Contract):
    """The attempt has ended in every pod. Another one follows in the same pods, or each ends as it said."""

    type: Literal["verdict"] = "verdict"
    again: bool
    code: int | None = None
    """That every pod ends with, if not with its own."""
    cause: Cause | None = None


class Finished(Contract):
    """Every pod is done."""

    type: Literal["finished"] = "finished"


Upward = EndRequested | Position | Saved | Wanted | Stuck | Dumped | Paces | Times | Bye
"""To node 0, after the ``Join``."""
Downward = Start | Pause | Act | Carry | Ask | Given | Terminate | Dump | Leave | Verdict | Finished
"""From node 0."""
AnyMessage = Ping | Knock | Challenge | Join | Upward | Downward

MESSAGE: TypeAdapter[AnyMessage] = TypeAdapter(Annotated[AnyMessage, Field(discriminator="type")])


PATIENCE_SECONDS = 2.0
"""How long the ranks of a pod that must leave have to report what they know themselves."""


def leave_without_peer(cause: Cause, *, silent: bool = False, stopping: bool = False) -> Leave:
    """What the pods that are left must do.

    Args:
        cause: Names the pod that is lost.
        silent: It fell silent, so that time has been lost already: no patience with the ranks.
        stopping: The run was told to end, and cannot save any more without that pod.
    """
    code = ExitCode.PREEMPTED_NOT_SAVED if stopping else ExitCode.PEER_LOST
    return Leave(code=code, cause=cause, patience_seconds=0 if silent else PATIENCE_SECONDS, again=True)
