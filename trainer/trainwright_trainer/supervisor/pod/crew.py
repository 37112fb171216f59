"""Crew: the ranks of one pod, and how they are started and found to have ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank.messages import FromRankMessage
from trainwright_trainer.supervisor.environment import rank_environment
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.pod.rank import Rank
from trainwright_trainer.supervisor.rank_process import RankProcess
from trainwright_trainer.supervisor.role import Setting
from trainwright_trainer.supervisor.wire.messages import Start


class Owner(Protocol):
    """Who is told what becomes of the ranks: the pod."""

    def rank_said(self, rank: Rank, message: FromRankMessage) -> None:
        """A message from one of the ranks, already noted by it."""

    def rank_ended(self, rank: Rank, status: int) -> None:
        """The process of a rank ended by itself or was killed; the status is negative for a signal."""

    def rank_lost(self, rank: Rank, why: str) -> None:
        """A rank that runs elsewhere is gone, and nobody knows how it ended."""

    def leave(self, code: ExitCode, cause: Cause) -> None:
        """The ranks cannot work together: end with this code."""

    def settle(self) -> None:
        """Decide, if no rank runs any more."""


class Crew(Protocol):
    """One for each way of starting ranks."""

    def start(self, start: Start, owner: Owner) -> Sequence[Rank]:
        """Start all ranks, from the main thread. Raises ``OSError`` if the machine cannot."""

    def child_ended(self, pid: int, status: int) -> None:
        """A child of the supervisor was reaped; it may be an orphan of whom nobody knew."""


class LocalCrew:
    """Ranks that are children of this supervisor.

    Args:
        numbers: Of the ranks, by local rank.
        command: What each of them runs.
        environment: Local rank, node 0's word and the descriptor of its link -> the environment of that rank.
    """

    def __init__(
        self, numbers: Sequence[int], command: Sequence[str], environment: Callable[[int, Start, int], Mapping[str, str]]
    ) -> None:
        self._numbers, self._command, self._environment = numbers, command, environment
        self._ranks: list[RankProcess] = []
        self._owner: Owner | None = None

    def start(self, start: Start, owner: Owner) -> Sequence[Rank]:
        self._owner = owner
        for local_rank, number in enumerate(self._numbers):
            rank = RankProcess(number, owner.rank_said)
            rank.spawn(self._command, self._environment(local_rank, start, rank.link_descriptor))
            self._ranks.append(rank)
        get_log().info("ranks_started", ranks=[rank.number for rank in self._ranks], pids=[rank.pid for rank in self._ranks])
        return self._ranks

    def child_ended(self, pid: int, status: int) -> None:
        for rank in self._ranks:
            if rank.pid == pid and self._owner is not None:
                rank.ended(status)
                self._owner.rank_ended(rank, status)


def local_crew(setting: Setting, place: PodPlace, meeting: Mapping[str, str], nodes: int | None = None) -> LocalCrew:
    """The ranks of one node, as children of its supervisor.

    Args:
        meeting: Where and how they find the others.
        nodes: In an elastic run, how many there are this time.
    """
    world, node = setting.spec.world, place.node or 0
    first = node * world.processes_per_node

    def environment(local_rank: int, start: Start, link: int) -> dict[str, str]:
        return rank_environment(
            setting.environ, world, node=node, local_rank=local_rank, attempt=start.attempt,
            specification=setting.specification.path, link=link, meeting=meeting, nodes=nodes, resume_before=start.resume_before,
        )

    return LocalCrew(range(first, first + world.processes_per_node), setting.rank_command, environment)
