"""What stands for the supervisor that pods bring along: this environment's, in a folder of the same shape.

A pod's command stays as it is written: what is called like the loader starts what it is told to, the folder is the prefix of its
Python, and scripts whose own Python has nothing of ours find their hand here, as in the cluster.
"""

from __future__ import annotations

import sys
import venv
from importlib.resources import files
from pathlib import Path

from trainwright.rehearsal.processes.ssh import write_program
from trainwright_trainer.contract.layout import HAND_FOLDER, brought_python

HAND = ("__init__.py", "run", "adapters")
"""Of our package, as in the image (trainer/images/collect_supervisor.py)."""


def write_supervisor(folder: Path) -> Path:
    """Write it, unless an earlier container has; returns the folder."""
    hand = folder / HAND_FOLDER / "trainwright_trainer"
    if hand.exists():
        return folder
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "own.pth").write_text("".join(f"{path}\n" for path in sys.path[1:]))  # the first is of whoever started this
    write_program(Path(brought_python(str(folder))[0]), 'shift 2\nexec "$@"\n')
    hand.mkdir(parents=True)
    for part in HAND:
        (hand / part).symlink_to(str(files("trainwright_trainer") / part))
    return folder
