"""The example on the page of defaults is what a project does."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.compiler.compiling import TODAY
from tests.pages import DOCS, FENCE, ROOT

from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources
from trainwright.reading.defaults import part
from trainwright.report.plan import plan_lines
from trainwright.run import Run
from trainwright.run.defaults import OWN

PAGE = (DOCS / "defaults.md").read_text(encoding="utf-8")
BLOCKS = {match["what"]: match["body"] for match in FENCE.finditer(PAGE)}


def test_the_plan_says_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "charts" / "runs").mkdir(parents=True)
    (tmp_path / "charts" / "clusters").mkdir()
    shutil.copy(ROOT / "charts" / "clusters" / "laptop.yaml", tmp_path / "charts" / "clusters")
    for name, body in BLOCKS.items():
        if name.startswith("file "):
            (tmp_path / name.removeprefix("file ")).write_text(body, encoding="utf-8")
    build = build_project(load_sources(Project(tmp_path)), TODAY)
    assert not build.failed, build.findings
    built = build.runs["digits-small"]
    assert BLOCKS["row"].strip() in [line.strip() for line in plan_lines(built.compiled, built.output.locator)]
    assert built.compiled.run.env == {"HF_HOME": "/tmp/vision", "SEED": "7"}


def test_the_page_names_every_key_that_is_the_runs_own() -> None:
    text = PAGE.partition("A default has no place for")[2].partition(".")[0]
    assert {word.strip("`") for word in text.replace("\n", " ").split() if "`" in word for word in [word.strip(",")]} == OWN


def test_the_page_names_every_key_whose_keys_merge() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| a mapping of the run's own keys"))
    merging = {field for field in Run.model_fields if field not in OWN and part(Run, field) not in (None, dict)}
    assert all(f"`{field}`" in row for field in merging), merging
    assert row.count("`") == 2 * len(merging)
