"""What docs/second-cluster.md says can be done: a profile beside the first, a run that moves, and one run on each of several."""

from __future__ import annotations

from pathlib import Path

from tests.compiler.projects import assert_ended, scratch
from tests.pages import DOCS, blocks

from trainwright.reading import validate_data
from trainwright.run.defaults import Defaults

PAGE = DOCS / "second-cluster.md"
MODULE = "charts/runs/vit_places.py"


def test_a_run_moves_by_one_line_and_a_loop_runs_it_on_several(tmp_path: Path) -> None:
    here = scratch(tmp_path / "project")
    assert_ended(here.run("new", ".", "--cluster", "laptop", "--name", "west"), 0)
    here.edit("charts/runs/digits-ddp.yaml", "cluster: laptop", "cluster: west")
    (text,) = [block.body for block in blocks(PAGE) if block.what == f"file {MODULE}"]
    here.write(MODULE, text)
    listed = here.run("list")
    assert_ended(listed, 0)
    assert "vit-places-laptop" in listed.stdout
    assert_ended(here.run("synth", "digits-ddp", "vit-places-laptop", "vit-places-west"), 0)
    assert not here.path("dist/laptop/training/runs/digits-ddp.k8s.yaml").exists()
    for run in ("west/training/runs/digits-ddp", "laptop/training/runs/vit-places-laptop", "west/training/runs/vit-places-west"):
        assert here.path(f"dist/{run}.k8s.yaml").is_file()


def test_what_it_says_by_cluster_can_be_a_default() -> None:
    (block,) = [block for block in blocks(PAGE) if block.what == "defaults"]
    assert validate_data(Defaults, block.data, None, {}).clusters.keys() == {"west"}
