"""Roll call: where the ranks of one pod are, collected into the pod's one answer to node 0."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.supervisor.pod.rank import Rank
from trainwright_trainer.supervisor.wire.messages import Position


class RollCall:
    """Open until every rank has answered, is past its last tick, or cannot take part."""

    def __init__(self, request: int, pod: str, ranks: Sequence[Rank]) -> None:
        self._request, self._pod, self._ranks = request, pod, ranks
        self._ticks: dict[int, int | None] = {}

    def answer(self, rank: Rank, request: int, tick: int | None) -> None:
        if request == self._request:
            self._ticks[rank.number] = tick

    def position(self) -> Position | None:
        """The pod's answer; None while it is open."""
        if not self._ranks:
            return self._absent(f"{self._pod} has not started its ranks")
        ticks = list[int]()
        for rank in self._ranks:
            if _past_the_end(rank):
                continue
            if not rank.alive:
                return self._absent(f"rank {rank.number} of {self._pod} has ended")
            if rank.number not in self._ticks:
                return None
            tick = self._ticks[rank.number]
            if tick is None:
                return self._absent(f"rank {rank.number} of {self._pod} is still {rank.phase}")
            ticks.append(tick)
        return Position(request=self._request, tick=max(ticks, default=None))

    def _absent(self, why: str) -> Position:
        return Position(request=self._request, absent=why)


def _past_the_end(rank: Rank) -> bool:
    return rank.phase == "finished" or (rank.outcome is not None and rank.outcome.code is ExitCode.DONE)
