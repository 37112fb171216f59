"""The TFJobs in dist/ train from their YAML, and so does one of their runs as a Volcano Job."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.engines.manifest_data import write_images
from tests.engines.rehearsed import Rehearsal

pytestmark = [pytest.mark.rehearsal, pytest.mark.slow]


@pytest.mark.parametrize("path", [
    "kubeflow-a100/training/runs/resnet-train",
    pytest.param(Path(__file__).with_name("volcano.yaml"), marks=pytest.mark.nightly),
])
def test_its_pods_train(path: str | Path, tmp_path: Path) -> None:
    rehearsal = Rehearsal(path, tmp_path)
    write_images(rehearsal.at("/data/imagenet"), classes=1000, count=1)
    rehearsal.play()


@pytest.mark.nightly
def test_a_program_of_its_author_s_meets_its_peers(tmp_path: Path) -> None:
    rehearsal = Rehearsal("kubeflow-a100/training/runs/tensorflow-distributed", tmp_path)
    rehearsal.at("/app").mkdir()
    shutil.copy(Path(__file__).with_name("app.py"), rehearsal.at("/app") / "train.py")
    rehearsal.play()
    assert rehearsal.logs.count("the sum is 2") >= 1
