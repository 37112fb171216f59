"""What stands for an image with the libraries of a program and nothing of ours, in a rehearsal: ``--python``."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from pathlib import Path


def make_image(folder: Path) -> Path:
    """An environment with all libraries of this one. Our package is not there: a .pth file has its path, and names no other."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    command = [str(folder / "bin" / "python"), "-E", "-c", "import pydantic, trainwright_trainer"]
    tried = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert "ModuleNotFoundError: No module named 'trainwright_trainer'" in tried.stderr
    return folder
