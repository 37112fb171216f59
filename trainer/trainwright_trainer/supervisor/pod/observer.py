"""Observer of a pod's ranks: what their time goes into, how fast each is, and whether one hangs."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright_trainer.checkpoint.ledger import Past
from trainwright_trainer.contract.spec import RunSpec, Script
from trainwright_trainer.observe.goodput import Timesheet
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.observe.pace import Gathering
from trainwright_trainer.rank.messages import FromRankMessage, Measured, Pace, PhaseChanged, Result
from trainwright_trainer.supervisor.pod.rank import Rank
from trainwright_trainer.supervisor.watchdog import Watchdog
from trainwright_trainer.supervisor.wire.messages import Paces, Stuck, Times

OF_THE_PAST = ("trainwright_attempt", "trainwright_down_seconds", "trainwright_goodput")
"""What only a pod knows that was told of the attempts before: in an elastic run another one from round to round."""


class Observer:
    """Of one attempt. All times are on the event loop's clock.

    A script of the user says nothing of phases and steps: it is not watched, and its time is not told apart.
    """

    def __init__(self, spec: RunSpec, ranks: Sequence[Rank], past: Past, measurements: Measurements, now: float) -> None:
        self._ranks, self._measurements = ranks, measurements
        self._watchdog = None if isinstance(spec.work, Script) else Watchdog(spec.lifecycle)
        self._times = None if isinstance(spec.work, Script) else Timesheet(past, now)
        self._paces = Gathering(len(ranks))
        self._knows_past = past.attempts > 0
        measurements.forget(OF_THE_PAST)
        if self._knows_past:
            measurements.update({"trainwright_attempt": past.attempts})
        if self._times is not None and self._knows_past:
            measurements.update({"trainwright_down_seconds": past.down_seconds})

    def heard(self, rank: Rank, message: FromRankMessage, now: float) -> Paces | Times | None:
        """Take what a rank said. Gives what node 0 should hear: how the time goes, and once all have told it, the pod's paces."""
        if isinstance(message, Pace):
            seconds = self._paces.add({rank.number: message.own_seconds})
            return Paces(step=message.step, seconds=seconds) if seconds else None
        if self._times is not None and rank is self._ranks[0]:
            match message:
                case PhaseChanged() | Measured():
                    self._times.follow(rank.phase, rank.step, now)
                case Result():
                    self._times.close(now)
            self._measurements.update_labelled("trainwright_phase_seconds", self._times.seconds(now))
            if self._knows_past:
                self._measurements.update({"trainwright_goodput": self._times.goodput(now)})
            return Times(seconds=self._times.seconds(now), step=self._times.last_step) if rank.number == 0 else None
        return None

    def stuck(self, now: float) -> Stuck | None:
        """The rank that has made no progress for longer than it may, if there is one."""
        return None if self._watchdog is None else self._watchdog.stuck(self._ranks, now)
