"""What a pod was given, and the programs that it runs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.spec import RunSpec, Script, Work
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.rank.specification import Specification


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
