"""``trainwright list`` says what there is, and a name that is nearly right is answered with the one that was meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.projects import ROOT, Scratch, assert_ended, scratch

from trainwright.project.load import find_project, load_sources


@pytest.fixture
def here(tmp_path: Path) -> Scratch:
    return scratch(tmp_path / "project")


def listed(here: Scratch) -> dict[str, dict[str, Any]]:
    ended = here.run("list", "--json")
    assert_ended(ended, 0)
    return {row["run"]: row for row in json.loads(ended.stdout)["runs"]}


def test_it_names_every_run_and_every_cluster() -> None:
    sources = load_sources(find_project(ROOT))
    ended = Scratch(ROOT).run("list")
    assert_ended(ended, 0)
    runs, _, clusters = ended.stdout.removeprefix("runs\n").partition("clusters\n")
    assert [line.split()[:2] for line in runs.splitlines()] == [[n, f.run.cluster] for n, f in sorted(sources.runs.items())]
    assert [line.split()[0] for line in clusters.splitlines()] == sorted(sources.clusters)


def test_it_says_what_the_next_synth_would_change(here: Scratch) -> None:
    here.edit("charts/runs/digits-ddp.yaml", "epochs: 30", "epochs: 31")
    here.edit("charts/runs/own-script.yaml", "run: own-script\n", "run: own-script\nstate: done\n")
    here.write("charts/runs/fresh.yaml", here.read("charts/runs/stdlib-lm.yaml").replace("run: stdlib-lm", "run: fresh"))
    here.path("charts/runs/spot-resnet.yaml").unlink()
    here.write("charts/runs/ray-lm.yaml", "run: [")
    states = {name: row["state"] for name, row in listed(here).items()}
    assert states["digits-ddp"].startswith("active as digits-ddp-")
    assert states["digits-ddp"].endswith(", edited since")
    assert states["own-script"].endswith(", done at the next synth")
    assert states["fresh"] == "new: not in dist/ yet"
    assert states["spot-resnet"] == "has a record and no file"
    assert states["llama-1b-ddp"].partition("as ")[2].startswith("llama-1b-ddp-")
    assert "charts/runs/ray-lm.yaml" in here.run("list").stderr


def test_an_empty_project_has_none(tmp_path: Path) -> None:
    (tmp_path / "charts" / "runs").mkdir(parents=True)
    ended = Scratch(tmp_path).run("list")
    assert_ended(ended, 0)
    assert ended.stdout == "runs\n  none\nclusters\n  none\n"


@pytest.mark.parametrize(("arguments", "near"), [
    (["plan", "llama-1b-dp"], "llama-1b-ddp"),
    (["check", "lama_1b_ddp"], "llama-1b-ddp"),
    (["synth", "digit-ddp"], "digits-ddp"),
    (["plan", "digits-ddp", "--target", "jobset"], "job-set"),
    (["policies", "--admission", "h100"], "h100-ib"),
    (["rules", "411"], "TW411"),
    (["init", "x", "--cluster", "laptp"], "laptop"),
    (["init", "x", "--cluster", "laptop", "--namespace", "trainin"], "training"),
    (["new", "/nowhere/x", "--cluster", "eks"], "eks-p5"),
    (["explain", "llama-1b-ddp"], "dist/h100-ib/training/runs/llama-1b-ddp.k8s.yaml"),
    (["explain", "dist/h100-ib/training/runs/llama-1b-dp.k8s.yaml:3"], "dist/h100-ib/training/runs/llama-1b-ddp.k8s.yaml"),
])  # fmt: skip
def test_a_name_that_is_nearly_right_is_proposed(arguments: list[str], near: str) -> None:
    assert_ended(Scratch(ROOT).run(*arguments), 2, f"did you mean {near}?")
