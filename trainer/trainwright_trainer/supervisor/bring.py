"""Copies the supervisor out of its image: ``python -m trainwright_trainer.supervisor.bring FOLDER``, in an init container.

The image holds nothing but this Python and what it needs (tools/images, family ``supervisor``), so the copy is the Python's own
work, and no program of anybody else's image has a part in it. Nothing is set on ``FOLDER`` itself, which belongs to the kubelet.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

PARTS = ("bin", "lib")


def bring(folder: Path, home: Path) -> None:
    """Copy the folder that this Python lives in. What an earlier try left there is replaced."""
    for part in PARTS:
        shutil.copytree(home / part, folder / part, copy_function=shutil.copy, dirs_exist_ok=True, symlinks=True)


if __name__ == "__main__":
    bring(Path(sys.argv[1]), Path(sys.prefix))
