"""Programs of the system that some tests start: where they are, and which package of Debian has those that are missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

PACKAGES = {
    "chromedriver": "chromium-driver",
    "chromium": "chromium",
    "ip": "iproute2",
    "mpiexec.hydra": "mpich",
    "mpirun": "openmpi-bin",
    "promtool": "prometheus",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
}
"""Program -> the package of Debian and Ubuntu that has it. A machine with Python, make, git and a shell has none of them."""


def found(program: str) -> str | None:
    """Its path: on ``PATH``, or in the ``sbin`` beside a folder of it, where a user's ``PATH`` has none."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    beside = [folder.with_name("sbin") for folder in folders if folder.name == "bin"]
    return shutil.which(program, path=os.pathsep.join(map(str, [*folders, *beside])))


def lacking(*programs: str) -> str:
    """Why a test cannot run here, with what to install; empty where all of them are there."""
    missing = [program for program in programs if found(program) is None]
    packages = sorted({PACKAGES[program] for program in missing})
    return f"needs {' and '.join(missing)}: apt-get install {' '.join(packages)}" if missing else ""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test where one of them is missing."""
    reason = lacking(*programs)
    return pytest.mark.skipif(bool(reason), reason=reason)


def path_of(program: str) -> str:
    """Where it is; the test is skipped where it is missing."""
    path = found(program)
    if path is None:
        pytest.skip(lacking(program))
    return path
