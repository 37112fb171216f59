"""Verdict: one exit code for a pod, from the outcomes of its ranks and what its peers said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.supervisor.pod.outcome import RankOutcome

_NOT_A_FAILURE = (ExitCode.DONE, ExitCode.PEER_LOST, ExitCode.PREEMPTED_SAVED, ExitCode.PREEMPTED_NOT_SAVED)

_UNSAVED = (ExitCode.PREEMPTED_NOT_SAVED, ExitCode.PEER_LOST)


@dataclass(frozen=True, slots=True)
class Verdict:
    code: ExitCode
    cause: Cause | None = None
    provisional: bool = False
    """Whether it may be no more than the echo of a failure elsewhere, which node 0 would name."""


def verdict(outcomes: Sequence[RankOutcome], ranks: int, order: Verdict | None, stopping: Cause | None) -> Verdict:
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
            return Verdict(outcome.code, outcome.cause, provisional=outcome.aborted)
    if len(outcomes) == ranks and all(outcome.code is ExitCode.DONE for outcome in outcomes):
        return Verdict(ExitCode.DONE)
    if stopping is not None:
        return _stopped(in_time, ranks, order, stopping)
    if order is not None:
        return order
    for outcome in in_time:
        if outcome.code is not ExitCode.DONE:
            return Verdict(outcome.code, outcome.cause, provisional=outcome.code is ExitCode.PEER_LOST)
    raise ValueError(f"{ranks - len(outcomes)} ranks were killed without a reason")


def _stopped(in_time: Sequence[RankOutcome], ranks: int, order: Verdict | None, stopping: Cause) -> Verdict:
    """Saved only if every rank says so (or was done before): a rank that was killed may have missed the commit."""
    codes = {outcome.code for outcome in in_time}
    if len(in_time) == ranks and codes <= {ExitCode.DONE, ExitCode.PREEMPTED_SAVED}:
        return Verdict(ExitCode.PREEMPTED_SAVED, stopping)
    said = next((outcome.cause for outcome in in_time if outcome.code in _UNSAVED), None)
    return Verdict(ExitCode.PREEMPTED_NOT_SAVED, said or (order.cause if order else None) or stopping)
