"""Part: what one pod does in a run, from the moment that it knows who it is to its verdict. One class for each way of meeting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from trainwright_trainer.contract.exit_codes import Cause
from trainwright_trainer.contract.spec import RunSpec, Script
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.rank.specification import Specification
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.program import rank_program
from trainwright_trainer.supervisor.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Setting:
    """What a pod was given."""

    environ: Mapping[str, str]
    specification: Specification
    program: tuple[str, ...]
    """The command after ``supervise --``; empty except under mpirun."""
    trainer_command: tuple[str, ...] | None
    """What to start as each rank of a run that is no script. Default: the program of its engine."""
    measurements: Measurements

    @property
    def spec(self) -> RunSpec:
        return self.specification.spec

    @property
    def rank_command(self) -> tuple[str, ...]:
        """What each rank runs."""
        work = self.spec.work
        return rank_program(work) if isinstance(work, Script) else self.trainer_command or rank_program(work)


class Part(Protocol):
    """Made before the pod says that it is ready, and played once. Signals and children are told to it all the while."""

    place: PodPlace

    @property
    def attempt(self) -> str | None:
        """Of the run, once one has begun."""

    @property
    def step(self) -> int | None:
        """That training came to, as far as this pod knows."""

    @property
    def committed_step(self) -> int | None:
        """Of the newest commit that this pod knows of."""

    async def play(self) -> Verdict:
        """Do it, until nothing of it runs any more. Call once, with the signals let through."""

    async def leave(self, decided: Verdict) -> None:
        """After the verdict was reported: note it where it is kept, and part from the other pods in order."""

    def told_to_end(self, signal_name: str) -> None:
        """SIGTERM or SIGINT. Later ones change nothing."""

    def child_ended(self, pid: int, status: int) -> None:
        """A child was reaped; it may be an orphan of whom nobody knew."""

    def fail(self, cause: Cause) -> None:
        """Something unexpected in the supervisor itself: end whatever runs, and end."""
