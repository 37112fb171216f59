"""The page on a project of one's own says what happens; tools/newcomer.sh plays it in a fresh environment."""

from __future__ import annotations

import re
from pathlib import Path

from tests.compiler.projects import Scratch, assert_ended
from tests.pages import DOCS, FENCE, ROOT

from trainwright.starter.discovery import KUBECTL
from trainwright.starter.files import cluster_kinds

PAGE = (DOCS / "start.md").read_text(encoding="utf-8")
RUN = "charts/runs/my-model.yaml"


def test_the_run_of_the_page_compiles_and_its_typo_is_told_as_shown(tmp_path: Path) -> None:
    assert_ended(Scratch(tmp_path).run("new", "training", "--cluster", "eks-p5"), 0)
    here = Scratch(tmp_path / "training")
    (text,) = [match["body"] for match in FENCE.finditer(PAGE) if match["what"] == f"own {RUN}"]
    here.write(RUN, text)
    planned = here.run("plan", "my-model")
    assert_ended(planned, 0)
    assert planned.stdout.splitlines()[-1] == "  findings      none"
    (shown,) = [match["body"] for match in FENCE.finditer(PAGE) if "did you mean" in match["body"]]
    here.edit(RUN, "nodes: 2", "node: 2")
    ended = here.run("synth")
    assert_ended(ended, 1)
    assert ended.stderr == shown
    assert not here.path("dist/eks-p5/training/runs/my-model.k8s.yaml").exists()


def test_the_page_names_every_kind_of_cluster_and_the_command_that_reads_one() -> None:
    (listed,) = re.findall(r"There are (.*?)\. Their facts", PAGE, flags=re.DOTALL)
    assert set(re.findall(r"`([^`]+)`", listed)) == set(cluster_kinds())
    assert f"{KUBECTL} | trainwright new" in PAGE


def test_the_newcomer_plays_every_command_of_the_page() -> None:
    played = (ROOT / "tools" / "newcomer.sh").read_text(encoding="utf-8")
    commands = re.findall(r"^trainwright (\w+)", "\n".join(match["body"] for match in FENCE.finditer(PAGE)), flags=re.MULTILINE)
    assert set(commands) == {"new", "plan", "synth", "check", "validate", "rehearse"}
    for command in commands:
        assert f"trainwright {command}" in played
