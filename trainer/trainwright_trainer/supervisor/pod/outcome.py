"""Exit codes: from what each rank said last, or its exit status, to one code for the pod."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.spec import Script, Work
from trainwright_trainer.rank.messages import Result

_CODES = frozenset(int(code) for code in ExitCode)
_NOT_A_FAILURE = (ExitCode.DONE, ExitCode.PEER_LOST, ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED)
_UNSAVED = (ExitCode.PREEMPTED_NOT_SAVED, ExitCode.PEER_LOST)


@dataclass(frozen=True, slots=True)
class RankOutcome:
    rank: int
    code: ExitCode
    at: float
    """Monotonic seconds when it was known; orders the failures of a pod."""
    cause: Cause | None = None
    aborted: bool = False
    """Ended by SIGABRT: for a reason of its own, or because NCCL's watchdog aborts a process whose peer is gone."""

    def with_last_words(self, words: str) -> RankOutcome:
        """Of a script that failed."""
        if self.cause is None or not words:
            return self
        return replace(self, cause=self.cause.model_copy(update={"message": f"{self.cause.message}; its last words: {words}"}))


def outcome_of(rank: int, work: Work, result: Result | None, status: int | None, at: float) -> RankOutcome:
    """How a rank ended by itself. ``status`` is its exit status, negative for a signal; None while it still lives.

    A rank's own word stands whatever its exit status. A script of the user speaks by exit status: any code but 0 is USER_FAILURE,
    unless it uses this contract's codes (``protocol``) and the code is one of them.
    """
    if result is not None:
        return _said(rank, result, at)
    if status is None:
        raise ValueError(f"rank {rank} has neither reported a result nor ended")
    code, cause = _by_status(rank, work, status)
    return RankOutcome(rank, code, at, cause, aborted=not isinstance(work, Script) and status == -signal.SIGABRT)


def outcome_after_sigterm(rank: int, script: Script, status: int, at: float) -> RankOutcome:
    """How a script ended that was told to end.

    Saved only if it uses this contract's codes and says so. Any other end, 0 included, is "preempted, not saved": a script that
    catches SIGTERM and exits with 0 half-way would otherwise count as finished, and a Job never starts a finished index again.
    """
    if script.protocol and status in _CODES and status != ExitCode.DONE:
        return RankOutcome(rank, ExitCode(status), at, _cause(rank, script, "ExitStatus", _how(status)))
    return RankOutcome(rank, ExitCode.PREEMPTED_NOT_SAVED, at, _cause(rank, script, "Preempted", f"{_how(status)} after SIGTERM"))


def _cause(rank: int, work: Work, kind: str, what: str) -> Cause:
    """A command is one for all ranks of its pod, and which of them failed is its secret."""
    if work.kind == "command":
        return Cause(kind=kind, message=f"the command {what}")
    return Cause(rank=rank, kind=kind, message=f"rank {rank} {what}")


def _said(rank: int, result: Result, at: float) -> RankOutcome:
    if result.code not in _CODES:
        message = f"rank {rank} reported code {result.code}, which is no exit code of this trainer"
        return RankOutcome(rank, ExitCode.INTERNAL, at, Cause(rank=rank, kind="UnknownCode", message=message))
    code, cause = ExitCode(result.code), result.cause
    if cause is None and code is not ExitCode.DONE:
        cause = Cause(rank=rank, kind="Reported", message=f"rank {rank} ended with code {result.code} and gave no cause")
    if cause is not None and cause.rank is None:
        cause = cause.model_copy(update={"rank": rank})
    return RankOutcome(rank, code, at, cause)


def _by_status(rank: int, work: Work, status: int) -> tuple[ExitCode, Cause | None]:
    is_script = isinstance(work, Script)
    if status == 0 and is_script:
        return ExitCode.DONE, None
    if status == 0:
        return ExitCode.INTERNAL, _cause(rank, work, "NoResult", "exited with 0 and never said that it was done")
    if status == -signal.SIGKILL:
        cause = _cause(rank, work, "Killed", "was killed by SIGKILL, perhaps because the pod ran out of memory")
        return (ExitCode.USER_FAILURE if is_script else ExitCode.INTERNAL), cause
    cause = _cause(rank, work, "Killed" if status < 0 else "ExitStatus", _how(status))
    speaks_our_codes = not isinstance(work, Script) or work.protocol
    if speaks_our_codes and status in _CODES:
        return ExitCode(status), cause
    return (ExitCode.USER_FAILURE if is_script else ExitCode.INTERNAL), cause


def _how(status: int) -> str:
    return f"was killed by {_signal_name(-status)}" if status < 0 else f"exited with {status}"


def _signal_name(number: int) -> str:
    """``SIGTERM`` for 15; ``signal 40`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True, slots=True)
class PodOutcome:
    code: ExitCode
    cause: Cause | None = None
    provisional: bool = False
    """Whether it may only echo a failure elsewhere, which node 0 would name."""
    again: bool = False
    """Whether another attempt follows in this pod."""


def pod_outcome(outcomes: Sequence[RankOutcome], ranks: int, order: PodOutcome | None, stopping: Cause | None) -> PodOutcome:
    """Decide how a pod ends once none of its ``ranks`` runs any more.

    Args:
        outcomes: Of the ranks that ended by themselves; those that the supervisor killed are not among them.
        ranks: How many there were.
        order: What node 0 told this pod to end with, if it did (a lost peer, for instance).
        stopping: Why the run was told to end, if it was.

    First match wins: the earliest failure of a rank of this pod that is neither "peer lost" nor a preemption (nor an abort, if
    node 0 gave an order); done, if every rank is; in a run that was told to end, whether everything was saved; node 0's order;
    the earliest "peer lost".
    """
    in_time = sorted(outcomes, key=lambda outcome: (outcome.at, outcome.rank))
    for outcome in in_time:
        if outcome.code not in _NOT_A_FAILURE and not (outcome.aborted and order is not None):
            return PodOutcome(outcome.code, outcome.cause, provisional=outcome.aborted)
    if len(outcomes) == ranks and all(outcome.code is ExitCode.DONE for outcome in outcomes):
        return PodOutcome(ExitCode.DONE)
    if stopping is not None:
        return _stopped(in_time, ranks, order, stopping)
    if order is not None:
        return order
    for outcome in in_time:
        if outcome.code is not ExitCode.DONE:
            return PodOutcome(outcome.code, outcome.cause, provisional=outcome.code is ExitCode.PEER_LOST)
    raise ValueError(f"{ranks - len(outcomes)} ranks were killed without a reason")


def _stopped(in_time: Sequence[RankOutcome], ranks: int, order: PodOutcome | None, stopping: Cause) -> PodOutcome:
    """Saved only if every rank says so (or was done before): a rank that was killed may have missed the commit."""
    codes = {outcome.code for outcome in in_time}
    if len(in_time) == ranks and codes <= {ExitCode.DONE, ExitCode.PREEMPTED_SAVED}:
        return PodOutcome(ExitCode.PREEMPTED_SAVED, stopping)
    said = next((outcome.cause for outcome in in_time if outcome.code in _UNSAVED), None)
    return PodOutcome(ExitCode.PREEMPTED_NOT_SAVED, said or (order.cause if order else None) or stopping)
