"""The RayJobs in dist/ from their YAML, each on a Ray cluster of its own and by its very entrypoint."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.engines.manifest_data import write_tokens
from tests.engines.manifest_ray import RayJob
from tests.engines.processes import Processes

from trainwright_trainer.checkpoint import read_complete

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
APP = Path(__file__).with_name("app.py")
"""What that run's image has at /app/train.py."""


def test_a_ray_job_runs_its_entrypoint(tmp_path: Path, processes: Processes) -> None:
    with RayJob("ray-l40s/ray/runs/ray-train", tmp_path) as job:
        shutil.copy(APP, job.at("/app/train.py"))
        output = job.drive(processes)
        assert "ends with" in output, output
        directory = job.variables()["TRAINWRIGHT_CHECKPOINT_DIRECTORY"]
        assert f"'directory': '{directory}'" in output, output
        assert len(list(Path(directory).glob("run/checkpoint_*/model.pt"))) == 3
        assert os.listdir(job.at("/data")) == []


def test_a_ray_job_trains(tmp_path: Path, processes: Processes) -> None:
    """With our trainer: the driver has Ray Train place the ranks, and hears from each of them."""
    with RayJob("ray-l40s/ray/runs/ray-lm", tmp_path) as job:
        write_tokens(job.at("/data/corpus"), vocabulary=400, token_bytes=2)
        output = job.drive(processes)
        assert job.spec is not None
        assert job.spec.state_directory is not None
        complete = read_complete(Path(job.spec.state_directory))
        assert complete is not None, output
        assert complete.identity == job.name
        assert output.count('"event": "step"') >= 3, output
