"""Role: what one pod does in a run, from the moment that it knows who it is to its exit code, and the programs that it runs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.exit_codes import Cause, ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.spec import RunSpec, Script, Work
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.rank.specification import Specification
from trainwright_trainer.supervisor.place import PodPlace
from trainwright_trainer.supervisor.pod.outcome import PodOutcome


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


class Role(Protocol):
    """Made before the pod says that it is ready, and run once. It hears of every signal and of every child that ended."""

    place: PodPlace

    @property
    def attempt(self) -> str | None:
        """Nonce of the attempt, once one has begun."""

    @property
    def step(self) -> int | None:
        """Last step that training reached, as far as this pod knows."""

    @property
    def committed_step(self) -> int | None:
        """Step of the newest commit that this pod knows of."""

    async def run_to_end(self) -> PodOutcome:
        """Run until nothing of it is left. Call once, with the signals let through."""

    async def leave(self, decided: PodOutcome) -> None:
        """After the outcome was reported: note it where it is kept, and leave the other pods in order."""

    def told_to_end(self, signal_name: str) -> None:
        """SIGTERM or SIGINT. Later ones change nothing."""

    def child_ended(self, pid: int, status: int) -> None:
        """A child was reaped; it may be an orphan that nobody here started."""

    def fail(self, cause: Cause) -> None:
        """Something unexpected in the supervisor itself: end whatever runs, and end."""


def rank_program(work: Work) -> tuple[str, ...]:
    """What each rank of this work runs."""
    if isinstance(work, Script):
        return work.command
    if isinstance(work, Boosting):
        return (sys.executable, "-m", "trainwright_trainer.boosting")
    return (sys.executable, "-m", "trainwright_trainer.tensorflow" if work.engine == "tensorflow" else "trainwright_trainer.rank")


def check_program(work: Work, environ: Mapping[str, str]) -> None:
    """Look for a script's program before the pod waits for its peers.

    Raises :class:`PodError` with USER_FAILURE: worth another try, for the program may lie on a volume.
    """
    if isinstance(work, Script) and shutil.which(work.command[0], path=environ.get("PATH")) is None:
        message = f"work.command starts {work.command[0]!r}, and no such program is in this image; check its name, PATH and mode"
        raise PodError(ExitCode.USER_FAILURE, "NoSuchProgram", message)
