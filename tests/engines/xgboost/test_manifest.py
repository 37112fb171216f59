"""The XGBoostJob and the TrainJob in dist/ that grow trees do so from their YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.manifest_data import write_table
from tests.engines.rehearsed import Rehearsal

pytestmark = [pytest.mark.rehearsal, pytest.mark.slow]


@pytest.mark.parametrize("path", [
    "kubeflow-a100/training/runs/xgboost-dist",
    pytest.param("trainer-h100/research/runs/xgboost-trainjob", marks=pytest.mark.nightly),
])
def test_a_boosting_run_trains(path: str, tmp_path: Path) -> None:
    rehearsal = Rehearsal(path, tmp_path)
    for folder, files in (("train", 3), ("held-out", 2)):
        write_table(rehearsal.at(f"/data/claims/{folder}"), "fraud", files=files)
    rehearsal.play()
