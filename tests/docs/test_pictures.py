"""The README's pictures are what the commands say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from tests.pages import DOCS, ROOT

PICTURES = DOCS / "pictures"


def tool() -> ModuleType:
    """``tools/pictures.py``, which is a script and in no package."""
    specification = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["plan", "diff"])
def test_a_picture_shows_what_the_command_says_now(name: str) -> None:
    shown = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert shown == tool().DRAWN[name](), f"draw it anew: python tools/pictures.py {name}"


@pytest.mark.parametrize("picture", sorted(PICTURES.glob("*.svg")), ids=lambda picture: picture.stem)
def test_a_picture_asks_no_other_host_and_shows_no_folder_of_one_machine(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert "url(" not in text.replace("url(#", "")
    assert str(ROOT) not in text


def test_every_picture_is_on_a_page() -> None:
    shown = {path: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
    for name in tool().DRAWN:
        assert f"(docs/pictures/{name}.svg)" in shown[ROOT / "README.md"]
    for picture in PICTURES.iterdir():
        assert any(f"pictures/{picture.name}" in text for text in shown.values()), picture.name
