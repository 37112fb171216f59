"""This Python, as a command: what starts a program of ours beside the supervisor, here or, under mpirun, in another pod.

And what lies beside it for scripts, whose Python is another one.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from trainwright_trainer.contract.layout import HAND_FOLDER, brought_python


def interpreter() -> tuple[str, ...]:
    """Its words, before ``-m MODULE``. One that a pod brought along starts by its own loader: the image may have none, or
    another C library's.
    """
    return brought_python(sys.prefix) if brought() else (sys.executable,)


def brought() -> bool:
    """Whether this Python is one that a pod brought along, and so not the image's."""
    return os.path.exists(brought_python(sys.prefix)[0])


def python_of_image(command: Sequence[str], inherited: Mapping[str, str]) -> str:
    """A Python that has the libraries of a rank's command: this one, or where it was brought along, the command's own."""
    if not brought():
        return sys.executable
    first = command[0]
    if PurePosixPath(first).name.startswith("python"):
        return first
    return next((name for name in ("python3", "python") if shutil.which(name, path=inherited.get("PATH"))), "python3")


def hand_path(inherited: Mapping[str, str]) -> dict[str, str]:
    """Where a script that calls ``trainwright_trainer.run`` finds it, behind whatever its image or run put there.

    A Python that was brought along has the hand beside it; an image with this package has it installed.
    """
    hand = Path(sys.prefix, HAND_FOLDER)
    return {"PYTHONPATH": os.pathsep.join(filter(None, (inherited.get("PYTHONPATH"), str(hand))))} if hand.is_dir() else {}
