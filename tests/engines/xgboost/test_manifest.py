"""The XGBoostJob and the TrainJob in dist/ that grow trees do so from their YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.manifest_data import write_table
from tests.engines.manifest_run import Playing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("path", ["kubeflow-a100/training/runs/xgboost-dist", "trainer-h100/research/runs/xgboost-trainjob"])
def test_a_boosting_run_trains(path: str, tmp_path: Path) -> None:
    with Playing(path, tmp_path) as run:
        write_table(run.at("/data/claims/train"), "fraud", files=3)
        write_table(run.at("/data/claims/held-out"), "fraud", files=2)
        run.train()
