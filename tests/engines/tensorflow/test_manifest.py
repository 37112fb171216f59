"""The TFJob in dist/ trains from its YAML, and so does its run as a Volcano Job."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.manifest_data import write_images
from tests.engines.manifest_run import Playing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("path", ["kubeflow-a100/training/runs/resnet-train", Path(__file__).with_name("volcano.yaml")])
def test_its_pods_train(path: str | Path, tmp_path: Path) -> None:
    with Playing(path, tmp_path) as run:
        write_images(run.at("/data/imagenet"), classes=4)
        run.train()
