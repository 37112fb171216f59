"""What a container runs, found on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from trainwright.rehearsal.expansion import expand
from trainwright.rehearsal.kinds import Container


def command_line(container: Container, values: Mapping[str, str]) -> tuple[str, ...]:
    """``command`` and ``args`` with their variables expanded, in the container's view."""
    return tuple(expand(word, values) for word in (*container.command, *container.args))


def search_path(values: Mapping[str, str], caller: Mapping[str, str]) -> str:
    """The container's PATH if its manifest sets one, else the caller's; the folder of this Python comes first."""
    return os.pathsep.join([str(Path(sys.executable).parent), values.get("PATH") or caller.get("PATH") or os.defpath])


def find_program(word: str, path: str) -> str | None:
    """Absolute path of the program that ``word`` names, as a container runtime looks it up."""
    found = shutil.which(word, path=path)
    return str(Path(found).absolute()) if found else None
