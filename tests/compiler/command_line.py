"""The command line in a process of its own, forked from one that has loaded it: a start from nothing takes longer than most
commands. What it is started with, and what it leaves, are those of the installed program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

MOST_SECONDS = 100

_server = get_context("forkserver")
_server.set_forkserver_preload([__name__, "pytest", "tests.compiler.command_line_loaded"])


def started(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """What the command line says and ends with in a folder; nobody answers what it asks.

    Args:
        environment: of the command; what is read when a module is loaded, such as the encoding of its output, is this process's.
    """
    with TemporaryDirectory() as kept:
        said = [Path(kept, name) for name in ("stdout", "stderr")]
        process = _server.Process(target=_run, args=(arguments, folder, dict(environment), said))
        process.start()
        process.join(MOST_SECONDS)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired([*arguments], MOST_SECONDS)
        return subprocess.CompletedProcess(arguments, process.exitcode, *(path.read_text(encoding="utf-8") for path in said))


def _run(arguments: Sequence[str], folder: Path, environment: dict[str, str], said: Sequence[Path]) -> None:
    for number, path in enumerate((Path(os.devnull), *said)):
        handle = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["trainwright", *arguments]
    from trainwright.cli import main

    main()
