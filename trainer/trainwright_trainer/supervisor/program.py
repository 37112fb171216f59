"""The user's program: can it be started at all?"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.spec import Script
from trainwright_trainer.contract.training import Training
from trainwright_trainer.supervisor.refusal import Refusal


def check_program(work: Training | Script, environ: Mapping[str, str]) -> None:
    """Look for a script's program before the pod waits for its peers.

    Raises :class:`Refusal` with USER_FAILURE: worth another try, for the program may lie on a volume.
    """
    if isinstance(work, Script) and shutil.which(work.command[0], path=environ.get("PATH")) is None:
        message = f"work.command starts {work.command[0]!r}, and no such program is in this image; check its name, PATH and mode"
        raise Refusal(ExitCode.USER_FAILURE, "NoSuchProgram", message)
