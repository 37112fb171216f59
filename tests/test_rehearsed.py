"""The verdict of ``make rehearse-all``, from what pytest writes of each environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.rehearsed import verdict

PLAYS, FAILS, SKIPS = "def test_plays(): pass\n", "def test_fails(): assert 0, 'pod node-1 ended'\n", (
    "import pytest\ndef test_skips(): pytest.skip('no mpirun')\n"
)


def written(folder: Path, environment: str, text: str) -> Path:
    """By pytest itself."""
    (folder / f"test_{environment}.py").write_text(text)
    file = folder / f"rehearsed-{environment}.xml"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", f"--junit-xml={file}"]
    subprocess.run([*words, str(folder / f"test_{environment}.py")], cwd=folder, stdout=subprocess.DEVNULL, check=False)
    return file


def test_what_failed_was_skipped_or_never_began_has_not_played(tmp_path: Path) -> None:
    torch = written(tmp_path, "torch", PLAYS)
    said, code = verdict([torch])
    assert (code, "all 1 played" in said) == (0, True), said
    said, code = verdict([torch, written(tmp_path, "ray", PLAYS + FAILS + SKIPS), tmp_path / "rehearsed-horovod.xml"])
    assert (code, "3 of 5 did not play" in said) == (1, True), said
    assert "pod node-1 ended" in said
    assert "no mpirun" in said
    assert "horovod" in said
