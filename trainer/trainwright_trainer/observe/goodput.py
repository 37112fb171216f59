"""Timesheet of an attempt: what its time goes into, by the phases of one rank. Keeps no time of its own."""

from __future__ import annotations

from trainwright_trainer.checkpoint.ledger import Past
from trainwright_trainer.contract.metrics import Phase

REPLAYING = "replaying"
"""Training on steps that an earlier attempt had done and not committed."""


class Timesheet:
    """All times are on one clock, in seconds.

    Args:
        past: The attempts before, with this one.
        now: When it began.
    """

    def __init__(self, past: Past, now: float) -> None:
        self._past, self._began = past, now
        self._phase: Phase | None = "starting"
        self._since = now
        self._seconds: dict[Phase, float] = {}
        self._first_step: int | None = None
        self.last_step: int | None = None

    def follow(self, phase: Phase, step: int | None, now: float) -> None:
        """The rank is in this phase, and this many steps are done."""
        if self._phase is None:
            return
        if phase != self._phase:
            self._book(now)
            self._phase = phase
        if step is not None and (phase == "training" or self._first_step is not None):  # before, it is not restored yet
            if self._first_step is None:
                self._first_step = step
            self.last_step = max(step, self.last_step or 0)

    def close(self, now: float) -> None:
        """The rank has ended."""
        self._book(now)
        self._phase = None

    def seconds(self, now: float) -> dict[str, float]:
        """By phase, the present one until now; what follows the last step is in none."""
        found: dict[str, float] = {phase: seconds for phase, seconds in self._seconds.items() if phase != "finished"}
        if self._phase not in (None, "finished"):
            found[self._phase] = found.get(self._phase, 0.0) + now - self._since
        if "training" in found:
            found[REPLAYING] = found["training"] * self._replayed_share
            found["training"] -= found[REPLAYING]
        return found

    def goodput(self, now: float) -> float:
        """Seconds for steps done for the first time over all seconds since the first attempt began."""
        age = self._past.age_seconds + now - self._began
        productive = self._past.productive_seconds + self.seconds(now).get("training", 0.0)
        return min(1.0, productive / age) if age > 0 else 0.0

    @property
    def past(self) -> Past:
        return self._past

    def _book(self, now: float) -> None:
        if self._phase is not None:
            self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._since = now

    @property
    def _replayed_share(self) -> float:
        """Of the attempt's steps, each taken to last as long as the others. Before the first, time counts as it will then."""
        first, last, reached = self._first_step or 0, self.last_step or 0, self._past.reached_step
        if last <= first:
            return 1.0 if first < reached else 0.0
        return (min(last, max(reached, first)) - first) / (last - first)
