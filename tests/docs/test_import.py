"""The page on imports is played: from its manifest to a rehearsed run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.compiler.projects import Scratch, assert_ended
from tests.pages import DOCS, FENCE

PAGE = (DOCS / "import.md").read_text(encoding="utf-8")


def block(what: str) -> str:
    (body,) = (match["body"] for match in FENCE.finditer(PAGE) if match["what"] == what)
    return body


@pytest.fixture
def averages(tmp_path: Path) -> Scratch:
    (tmp_path / "mean.yaml").write_text(block("manifest mean.yaml"), encoding="utf-8")
    assert_ended(Scratch(tmp_path).run("new", "averages", "--import", "mean.yaml"), 0)
    return Scratch(tmp_path / "averages")


def test_the_run_is_the_one_of_the_page(averages: Scratch) -> None:
    modeline, _, text = averages.read("charts/runs/mean.yaml").partition("\n")
    assert (modeline.startswith("# yaml-language-server"), text) == (True, block("imported charts/runs/mean.yaml"))
    assert_ended(averages.run("check"), 0)


@pytest.mark.skipif(find_spec("torch") is None, reason="ranks of torch need it")
def test_the_run_is_rehearsed(averages: Scratch) -> None:
    ended = averages.run("rehearse", "mean")
    assert_ended(ended, 0)
    assert all(line in ended.stdout for line in block("rehearsed").splitlines())
