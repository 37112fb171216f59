"""The TFJob in dist/ trains from its YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.manifest_data import write_images
from tests.engines.manifest_run import Playing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_tf_job_trains(tmp_path: Path) -> None:
    with Playing("kubeflow-a100/training/runs/resnet-train", tmp_path) as run:
        write_images(run.at("/data/imagenet"), classes=4)
        run.train()
