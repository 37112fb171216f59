"""The programs that a pod is to run: can they be started, and is there a use for them?"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.spec import Script, Work, World
from trainwright_trainer.supervisor.refusal import Refusal


def check_program(work: Work, environ: Mapping[str, str]) -> None:
    """Look for a script's program before the pod waits for its peers.

    Raises :class:`Refusal` with USER_FAILURE: worth another try, for the program may lie on a volume.
    """
    if isinstance(work, Script) and shutil.which(work.command[0], path=environ.get("PATH")) is None:
        message = f"work.command starts {work.command[0]!r}, and no such program is in this image; check its name, PATH and mode"
        raise Refusal(ExitCode.USER_FAILURE, "NoSuchProgram", message)


def check_launcher(program: Sequence[str], world: World) -> None:
    """Look at the command after ``supervise --``, which pods under mpirun have and no others.

    Raises :class:`Refusal` with INVALID_SPEC where there is a command and nothing that would start it.
    """
    if program:
        message = (
            f"`supervise -- {program[0]} …` names a command, and world.rendezvous.kind is {world.rendezvous.kind}: only "
            "mpi-hostfile has a launcher to start; remove the command from the pod, or let work.command name it"
        )
        raise Refusal(ExitCode.INVALID_SPEC, "NoLauncher", message)
