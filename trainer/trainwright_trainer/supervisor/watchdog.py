"""Watchdog: which rank of a pod has made no progress for longer than its phase allows. No time and no sockets of its own."""

from __future__ import annotations

from collections.abc import Iterable

from trainwright_trainer.contract import spec as contract
from trainwright_trainer.contract.spec import Lifecycle
from trainwright_trainer.rank.messages import Beat, Phase
from trainwright_trainer.supervisor.pod.rank import Rank
from trainwright_trainer.supervisor.wire.messages import Stuck

CHECK_SECONDS = 1.0


class Watchdog:
    """One per pod whose ranks give signs of life."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._limits = lifecycle.watchdog or contract.Watchdog()
        self._save_seconds = lifecycle.save_seconds

    def stuck(self, ranks: Iterable[Rank], now: float) -> Stuck | None:
        """The rank that has exceeded its limit by most, if one has. ``now`` is on the event loop's clock."""
        worst: tuple[float, Stuck] | None = None
        for rank in ranks:
            if not rank.alive or rank.result is not None:
                continue
            idle, limit = now - rank.progressed_at, self.limit(rank.phase, rank.beat)
            if idle > limit and (worst is None or idle / limit > worst[0]):
                doing = rank.phase.replace("_", " ")
                why = f"has been {doing} for {idle:.0f} s without progress, and {limit:g} s is the limit"
                worst = idle / limit, Stuck(rank=rank.number, why=why)
        return worst[1] if worst else None

    def limit(self, phase: Phase, beat: Beat | None) -> float:
        """Seconds without progress that a phase allows. A step may take several times as long as those before it."""
        limits = self._limits
        match phase:
            case "starting":
                return limits.starting_seconds
            case "restoring":
                return limits.restoring_seconds
            case "warming_up":
                return limits.warming_up_seconds
            case "saving" | "finished":  # what follows the last step is the marker on the volume
                return max(limits.saving_seconds, limits.slowdown * self._save_seconds)
            case "training" | "evaluating":
                usual = beat.tick_seconds if beat is not None and beat.tick_seconds is not None else 0.0
                return max(limits.training_seconds, limits.slowdown * usual)
