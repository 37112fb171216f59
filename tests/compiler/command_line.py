"""The command line in a process of its own, forked from one that has loaded it. What it is started with, and what it leaves, are
those of the installed program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.forked import Forked, become, preload
from tests.processes import PATIENCE_SECONDS

preload(__name__, "pytest", "tests.compiler.command_line_loaded")


def started(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """What the command line says and ends with in a folder; nobody answers what it asks.

    Args:
        environment: of the command; what is read when a module is loaded, such as the encoding of its output, is this process's.
    """
    with TemporaryDirectory() as kept:
        said = [Path(kept, name) for name in ("stdout", "stderr")]
        process = Forked(_run, arguments, folder, dict(environment), said)
        try:
            code = process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(arguments, code, *(path.read_text(encoding="utf-8") for path in said))


def _run(arguments: Sequence[str], folder: Path, environment: dict[str, str], said: Sequence[Path]) -> None:
    become(environment, *said)
    os.chdir(folder)
    sys.argv = ["trainwright", *arguments]
    from trainwright.cli import main

    main()
