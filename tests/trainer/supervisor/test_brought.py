"""The folder that brings the supervisor into any image: that it is copied, and that its programs start by its own loader."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright_trainer.contract.layout import HAND_FOLDER, brought_python
from trainwright_trainer.contract.spec import Script, ScriptCheckpoints
from trainwright_trainer.supervisor import shim
from trainwright_trainer.supervisor.bring import bring
from trainwright_trainer.supervisor.interpreter import hand_path, interpreter


def folder(path: Path) -> Path:
    for name in ("bin/python3", "lib/ld.so", "lib/python3.11/os.py", "proc/1/environ"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(name)
    (path / "lib" / "ld.so").chmod(0o755)
    return path


def test_an_image_that_has_it_starts_by_its_own_python() -> None:
    assert interpreter() == (sys.executable,)


def test_a_folder_that_was_brought_starts_by_its_own_loader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever is started beside it: the executable by itself would look for a loader that the image need not have."""
    monkeypatch.setattr(sys, "prefix", str(folder(tmp_path)))
    assert interpreter() == brought_python(str(tmp_path))
    assert tuple(shim.tied(["train"])[:5]) == brought_python(str(tmp_path))


def test_only_the_folder_is_copied_and_a_second_try_replaces_the_first(tmp_path: Path) -> None:
    home, there = folder(tmp_path / "image"), tmp_path / "pod"
    (there / "lib").mkdir(parents=True)
    (there / "lib" / "ld.so").write_text("half")
    mode = there.stat().st_mode
    bring(there, home)
    copied = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    assert copied == {"bin/python3", "lib/ld.so", "lib/python3.11/os.py"}
    assert (there / "lib" / "ld.so").read_text() == "lib/ld.so"
    assert (there / "lib" / "ld.so").stat().st_mode & 0o777 == 0o755
    assert there.stat().st_mode == mode


@pytest.mark.parametrize("said", [{"checkpoints": ScriptCheckpoints()}, {"config": {}}])
def test_a_script_that_calls_us_finds_what_was_brought_behind_its_own_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: dict[str, Any]
) -> None:
    assert Script(command=("python", "train.py"), **said).calls_us
    assert not Script(command=("python", "train.py")).calls_us
    assert hand_path({}) == {}, "an image that has us has it installed"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    hand = tmp_path / HAND_FOLDER
    hand.mkdir(parents=True)
    assert hand_path({}) == {"PYTHONPATH": str(hand)}
    assert hand_path({"PYTHONPATH": "/app:/lib"}) == {"PYTHONPATH": f"/app:/lib:{hand}"}
