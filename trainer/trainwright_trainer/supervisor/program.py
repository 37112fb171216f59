"""The programs that a pod is to run: can they be started, and is there a use for them?"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.spec import Script, Work
from trainwright_trainer.supervisor.refusal import Refusal


def rank_program(work: Work) -> tuple[str, ...]:
    """What each rank of this work runs."""
    if isinstance(work, Script):
        return work.command
    if isinstance(work, Boosting):
        return (sys.executable, "-m", "trainwright_trainer.boosting")
    return (sys.executable, "-m", "trainwright_trainer.tensorflow" if work.engine == "tensorflow" else "trainwright_trainer.rank")


def check_program(work: Work, environ: Mapping[str, str]) -> None:
    """Look for a script's program before the pod waits for its peers.

    Raises :class:`Refusal` with USER_FAILURE: worth another try, for the program may lie on a volume.
    """
    if isinstance(work, Script) and shutil.which(work.command[0], path=environ.get("PATH")) is None:
        message = f"work.command starts {work.command[0]!r}, and no such program is in this image; check its name, PATH and mode"
        raise Refusal(ExitCode.USER_FAILURE, "NoSuchProgram", message)
