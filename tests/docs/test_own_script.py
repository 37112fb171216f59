"""The page on one's own script is played: from nothing to a rehearsed run."""

from __future__ import annotations

from pathlib import Path

from ruamel.yaml import YAML
from tests.compiler.projects import Scratch, assert_ended
from tests.pages import DOCS, FENCE

BLOCKS = {match["what"]: match["body"] for match in FENCE.finditer((DOCS / "own-script.md").read_text(encoding="utf-8"))}
RUN, PROFILE = "charts/runs/counting.yaml", "charts/clusters/laptop.yaml"


def test_the_run_of_the_page_is_rehearsed(tmp_path: Path) -> None:
    assert_ended(Scratch(tmp_path).run("new", "counting", "--cluster", "laptop"), 0)
    here = Scratch(tmp_path / "counting")
    here.write(PROFILE, here.read(PROFILE) + BLOCKS["profile laptop"])
    here.write(RUN, BLOCKS[f"own {RUN}"])
    planned = here.run("plan", "counting")
    assert_ended(planned, 0)
    image = YAML(typ="safe").load(BLOCKS["profile laptop"])["supervisor"]["image"]
    assert f"from {image.partition('@')[0]} " in planned.stdout
    assert planned.stdout.splitlines()[-1] == "  findings      none"
    assert_ended(here.run("synth"), 0)
    rehearsed = here.run("rehearse", "counting")
    assert_ended(rehearsed, 0)
    assert all(line in rehearsed.stdout for line in BLOCKS["rehearsed"].splitlines()), rehearsed.stdout
