"""Every run in dist/ is trained from its YAML by a test, or stands below with the reason why it is not."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import yaml
from tests.compiler.rehearsal import stage

ROOT = Path(__file__).resolve().parents[2]
DIST, TESTS = ROOT / "dist", ROOT / "tests"
PLAYERS = (TESTS / "trainer" / "test_manifests.py", *(TESTS / "engines").glob("*/test_manifest.py"))
REHEARSALS = TESTS / "compiler" / "rehearsal" / "test_trainer.py"
RUN = re.compile(r"[\w-]+/[\w-]+/runs/[\w-]+")
SUFFIX = ".k8s.yaml"

OPAQUE = "an opaque command: its pods run torchrun and a program of their image, and nothing of ours"
NOT_PLAYED = {
    "h100-ib/training/runs/deepspeed-training": OPAQUE,
    "h100-ib/training/runs/torchrun-command": OPAQUE,
    "kubeflow-a100/training/runs/gang-scheduled-training": "the pods of hostnetwork-ddp, but for what the scheduler reads",
    "kubeflow-a100/training/runs/tensorflow-distributed": "a program of its image; resnet-train has the pods of such a TFJob",
}
"""Run -> why no test trains it."""


def committed() -> set[str]:
    return {str(path.relative_to(DIST)).removesuffix(SUFFIX) for path in DIST.glob(f"*/*/runs/*{SUFFIX}")}


def played() -> set[str]:
    """Runs that the tests of manifests name."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in PLAYERS)
    words = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {word for word in words if isinstance(word, str) and RUN.fullmatch(word)}


def rehearsed() -> set[str]:
    """Runs whose rehearsal, which takes the YAML as it is, trains to its end in a test."""
    names = {node.id for node in ast.walk(ast.parse(REHEARSALS.read_text(encoding="utf-8"))) if isinstance(node, ast.Name)}
    paths = [value for name in names if isinstance(value := getattr(stage, name, None), Path)]
    return {str(path.relative_to(DIST)).removesuffix(SUFFIX) for path in paths if path.name.endswith(SUFFIX)}


def test_every_run_is_played_or_excused() -> None:
    covered = played() | rehearsed()
    assert covered & NOT_PLAYED.keys() == set()
    assert covered | NOT_PLAYED.keys() == committed()


@pytest.mark.parametrize("run", NOT_PLAYED)
def test_a_run_that_our_trainer_trains_is_not_excused(run: str) -> None:
    documents = yaml.safe_load_all((DIST / f"{run}{SUFFIX}").read_text(encoding="utf-8"))
    files = [document["data"] for document in documents if document["kind"] == "ConfigMap"]
    assert [json.loads(file["run.json"])["work"]["kind"] for file in files if "run.json" in file] in ([], ["script"])
