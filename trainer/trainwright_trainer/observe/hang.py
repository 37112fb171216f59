"""A run that hangs: from the states of all ranks to one sentence that names who holds the others up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from trainwright_trainer.contract.base import Contract, Report
from trainwright_trainer.contract.exit_codes import Cause
from trainwright_trainer.contract.metrics import Phase

DUMP_SECONDS = 12.0
"""For every pod to dump: a second for the stacks, and some for its volume."""
MOST_NAMED = 4
NOT_SCHEDULED = ("stopped", "in uninterruptible sleep")


class Stuck(Contract):
    """A rank of this pod makes no progress."""

    type: Literal["stuck"] = "stuck"
    rank: int
    why: str
    """Such as "has been training for 250 s without progress, and 240 s is its limit"."""


class RankState(Report):
    """Where a rank is in a run that hangs."""

    rank: int
    pod: str
    """Its name in a sentence, such as ``node 3``."""
    phase: Phase
    step: int | None
    marks: int | None
    """How often its main thread has said that it goes on; None if the rank gives no sign of life."""
    idle_seconds: float
    process: str
    """The kernel's word for its process: ``running``, ``sleeping``, ``stopped``, ``in uninterruptible sleep``."""
    frame: str | None
    """Where its main thread is, by its stack."""
    waits_for_others: bool
    """Whether that is inside a collective."""


class Dumped(Contract):
    """In answer to ``Dump``."""

    type: Literal["dumped"] = "dumped"
    ranks: tuple[RankState, ...]
    path: str | None
    """Directory with the stacks; None where they could only be logged."""


class Hang:
    """Collects one answer from each pod.

    Args:
        found: The first report.
        pods: Node -> the pod's name in a sentence.
    """

    def __init__(self, found: Stuck, pods: Mapping[int, str]) -> None:
        self._found = found
        self._missing = dict(pods)
        self._dumps: list[Dumped] = []

    def answer(self, node: int, dumped: Dumped) -> None:
        """Note an answer; a second one is passed over."""
        if self._missing.pop(node, None) is not None:
            self._dumps.append(dumped)

    @property
    def complete(self) -> bool:
        return not self._missing

    def cause(self) -> Cause:
        """Of the end of the run, with what is known by now."""
        return hang_cause(self._found, self._dumps, self._missing.values())


def suspects(states: Sequence[RankState]) -> list[RankState]:
    """The ranks that hold the others up; none where all are at the same place.

    Ranks make the same calls in the same order, and a collective holds everybody until the last has entered. So the one that the
    others wait for is silent (its process is stopped, or waits for a disk), or has marked its progress less often than they have,
    or, at the same count, is not inside a collective while they are.
    """
    silent = [state for state in states if state.marks is None or state.process in NOT_SCHEDULED]
    if silent:
        return silent if len(silent) < len(states) else []
    least = min((state.marks or 0 for state in states), default=0)
    behind = [state for state in states if state.marks == least]
    found = [state for state in behind if not state.waits_for_others] or behind
    return found if len(found) < len(states) or len(states) == 1 else []


def hang_cause(found: Stuck, dumps: Collection[Dumped], missing: Collection[str]) -> Cause:
    """What the termination message of every pod says.

    Args:
        found: The rank whose limit was exceeded first.
        dumps: What pods answered.
        missing: Pods that did not answer in time.
    """
    states = [state for dump in dumps for state in dump.ranks]
    blamed = suspects(states)
    if blamed:
        names = "; ".join(_standing(state) for state in blamed[:MOST_NAMED])
        more = f"; and {len(blamed) - MOST_NAMED} more" if len(blamed) > MOST_NAMED else ""
        who = f"held up by {names}{more}"
    elif len(states) > 1:
        who = "no rank is behind the others" + (f": all are at {states[0].frame}" if states[0].frame else "")
    else:
        who = "nothing is known of its ranks"
    if missing:
        who += f"; {', '.join(missing)} did not answer"
    path = next((dump.path for dump in dumps if dump.path is not None), None)  # the same for all
    where = f"stacks are in {path}" if path else "stacks are in the logs of the pods"
    rank = blamed[0].rank if blamed else found.rank
    return Cause(rank=rank, kind="Hang", message=f"rank {found.rank} {found.why}: {who}; {where}")


def _standing(state: RankState) -> str:
    facts = [f"{state.phase.replace('_', ' ')}" + (f" after step {state.step}" if state.step is not None else "")]
    if state.process in NOT_SCHEDULED:
        facts.append(f"its process is {state.process}")
    elif state.frame:
        facts.append(f"at {state.frame}")
    elif state.marks is None:
        facts.append("no sign of life")
    return f"rank {state.rank} of {state.pod} ({', '.join(facts)})"
