"""The RayJobs in dist/ from their YAML, on real nodes of Ray: a submitter hands them in, the dashboard says how they end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.engines.manifest_data import write_tokens
from tests.engines.rehearsed import Rehearsal

pytestmark = [pytest.mark.rehearsal, pytest.mark.slow]


@pytest.mark.nightly
def test_a_ray_job_runs_its_entrypoint(tmp_path: Path) -> None:
    """With Ray Train: its workers are on two nodes, and save into the run's own folder of the claim."""
    rehearsal = Rehearsal("ray-l40s/ray/runs/ray-train", tmp_path)
    rehearsal.at("/app").mkdir()
    shutil.copy(Path(__file__).with_name("app.py"), rehearsal.at("/app") / "train.py")
    rehearsal.play()
    [directory] = (tmp_path / "w" / "claims" / "checkpoints" / "ray-train").iterdir()
    assert f"'directory': '{directory}'" in rehearsal.output, rehearsal.output
    assert len(list(directory.glob("run/checkpoint_*/model.pt"))) == 3, rehearsal.output


def test_a_ray_job_trains(tmp_path: Path) -> None:
    """With our trainer: the driver has Ray Train place the ranks, and hears from each of them."""
    rehearsal = Rehearsal("ray-l40s/ray/runs/ray-lm", tmp_path)
    write_tokens(rehearsal.at("/data/corpus"), vocabulary=400, token_bytes=2)
    rehearsal.play()
